//! Preview of a repair, and the repair. Only a plan that was displayed is executed.

pub(super) mod plans;

use std::{sync::Arc, time::Duration};

use maud::{Markup, html};
use operations::{
    progress::Silent,
    repair::{Done, NOWHERE, Planned},
};
use serde::Deserialize;
use serde_json::{Value, json};

use self::plans::{Planner, Ready, Scope, State};
use super::{
    app::App,
    background,
    page::{self, FormResponse, Section, View, entity_link},
    query::{Param, link},
};
use crate::error::PageError;

/// Maximum number of displayed steps. JSON contains all.
const MAX_STEPS: usize = 200;
/// Maximum time for which a request waits for a plan.
const PLAN_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    id: Param,
    all: Param,
    stream: Param,
    revive: Param,
    plan: Param,
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let plan = match query.plan.0.clone() {
        Some(plan) => plan,
        None => app.plans.start(Planner {
            connection: app.connection.clone(),
            services: app.services.clone(),
            sources: app.sources.clone(),
            lag: app.lag,
            scope: scope(app, &query)?,
        }),
    };
    app.plans.wait(&plan, PLAN_TIMEOUT).await;
    let shown = app.plans.show(&plan, |scope, state| show(app, &plan, scope, state));
    shown.ok_or_else(no_plan)?
}

fn no_plan() -> PageError {
    PageError::NotFound("there is no such plan: it was executed, or newer plans replaced it".to_owned())
}

fn scope(app: &App, query: &Query) -> Result<Scope, PageError> {
    let findings = if query.id.is_none() && query.all.is_some() {
        let why = "there is no complete audit: start one on the page Health";
        let findings = app.audit.findings();
        Some(findings.ok_or_else(|| PageError::Conflict(why.to_owned()))?)
    } else {
        query.id.entity()?;
        None
    };
    Ok(Scope {
        id: query.id.0.clone(),
        findings,
        stream: query.stream.is_some(),
        revive: query.revive.is_some(),
    })
}

fn show(app: &App, plan: &str, scope: &Scope, state: &State) -> Result<View, PageError> {
    let mut json = json!({"Plan": plan, "ID": scope.id, "AllowWrite": app.writes.is_some(), "State": state.name()});
    let region = match state {
        State::Failed(error) => return Err(Arc::clone(error).into()),
        State::Looking => html! {
            div #repair data-refresh="1000" data-refresh-from=(plan_address(plan)) {
                p #repair-state role="status" { "The plan is being created." }
                p { "The plan waits up to " (app.lag.as_secs()) " seconds for missing versions, because they may still arrive." }
                p { a href=(plan_address(plan)) { "Refresh" } }
            }
        },
        State::Ready(ready) => {
            json["Steps"] = ready.plan.steps.iter().map(Planned::to_json).collect();
            json["Left"] = json!(ready.plan.left);
            if app.writes.is_some() && !ready.plan.is_empty() {
                json["Form"] = json!({"Action": "/repair", "csrf": app.secrets.csrf(), "plan": plan});
            }
            html! { div #repair { (shown_plan(app, plan, scope, ready)) } }
        }
    };
    let body = html! {
        @if let Some(id) = &scope.id {
            p { (entity_link(id)) }
        } @else {
            p { a href="/health" { "Health" } }
        }
        h1 { "Repair preview" }
        (region)
    };
    Ok(View {
        title: "Repair".to_owned(),
        section: Section::Health,
        body,
        json,
    })
}

fn plan_address(plan: &str) -> String {
    link("/repair", [("plan", Some(plan.to_owned()))])
}

fn shown_plan(app: &App, plan: &str, scope: &Scope, ready: &Ready) -> Markup {
    let lines = ready.plan.to_json();
    let left = ready.plan.left.len();
    html! {
        p #repair-state role="status" {
            @match (ready.plan.steps.len(), left) {
                (0, 0) => "There is nothing to repair.",
                (0, _) => "None of the findings can be repaired.",
                (1, _) => "1 step.",
                (steps, _) => { (steps) " steps." }
            }
        }
        @if !lines.is_empty() { (table(&lines)) }
        (options(scope, ready))
        @if !ready.plan.is_empty() {
            @if app.writes.is_some() {
                form method="post" action="/repair" {
                    (page::csrf(app))
                    input type="hidden" name="plan" value=(plan);
                    button { "Repair" }
                }
            } @else {
                (page::read_only("repair"))
            }
        }
    }
}

/// Renders links to plans with more options.
fn options(scope: &Scope, ready: &Ready) -> Markup {
    let with = |stream: bool, revive: bool| {
        link(
            "/repair",
            [
                ("id", scope.id.clone()),
                ("all", scope.id.is_none().then(|| "1".to_owned())),
                ("stream", stream.then(|| "1".to_owned())),
                ("revive", revive.then(|| "1".to_owned())),
            ],
        )
    };
    let has = |name: &str, text: &str| ready.plan.left.iter().any(|left| left[name] == text);
    html! {
        @if !scope.stream && has("Why", NOWHERE) {
            p { a href=(with(true, scope.revive)) { "Also search the table's stream for missing versions" } }
        }
        @if !scope.revive && has("Finding", "Orphan") {
            p { a href=(with(scope.stream, true)) { "Recreate the latest item from the highest version" } }
        }
    }
}

fn table(lines: &[Value]) -> Markup {
    html! {
        div.scroll role="region" aria-label="Plan" tabindex="0" {
            table {
                caption { "Plan" }
                thead { tr { th scope="col" { "Step" } th scope="col" { "Details" } } }
                tbody {
                    @for line in lines.iter().take(MAX_STEPS) {
                        @let step = line["Step"].as_str().unwrap_or_default();
                        tr {
                            th scope="row" class=[(step == "None").then_some("bad")] { @if step == "None" { "Not repaired" } @else { (step) } }
                            td { (page::members(line, "Step")) }
                        }
                    }
                }
            }
        }
        @if lines.len() > MAX_STEPS { p.muted { "and " (lines.len() - MAX_STEPS) " more" } }
    }
}

/// Executes a displayed plan, once.
pub(super) async fn post(app: &App, query: Query) -> Result<FormResponse, PageError> {
    app.writes()?;
    let plan = query.plan.required("plan")?;
    let guard = app.lock()?;
    let (scope, ready) = app.plans.take(plan).ok_or_else(no_plan)?;
    let (entities, left) = (ready.entities, ready.plan.left.len());
    let connection = app.connection.clone();
    let done = background::run(async move || {
        let _guard = guard;
        let mut done = Done::default();
        done.execute(&connection.store, ready.plan.steps, &Silent).await;
        Ok(done)
    });
    let done = done.await?;
    let mut summary = done.counts();
    summary["Entities"] = json!(entities);
    summary["Left"] = json!(left);
    done.add_lists(&mut summary);
    Ok(FormResponse::View(View {
        title: "Repaired".to_owned(),
        section: Section::Health,
        body: result(&scope, &done, left, &summary),
        json: summary,
    }))
}

fn result(scope: &Scope, done: &Done, left: usize, summary: &Value) -> Markup {
    let members: Vec<_> = summary.as_object().into_iter().flatten().collect();
    html! {
        h1 { "Repair result" }
        @match done.verdict(left) {
            Ok(()) => p.good role="status" { "All findings are repaired." },
            Err(error) => p.bad role="status" { (error) },
        }
        div.scroll role="region" aria-label="Counts" tabindex="0" {
            table {
                caption { "Results" }
                thead { tr { th scope="col" { "Result" } th scope="col" { "Count" } } }
                tbody {
                    @for (name, count) in members.iter().filter(|(_, count)| count.is_number()) {
                        tr { th scope="row" { (name) } td { (count) } }
                    }
                }
            }
        }
        @for (name, list) in members {
            @if let Some(list) = list.as_array().filter(|list| !list.is_empty()) {
                h2 { (name) }
                ul { @for entry in list.iter().take(MAX_STEPS) { li { (page::members(entry, "")) } } }
            }
        }
        p {
            @if let Some(id) = &scope.id {
                (entity_link(id)) ", "
            }
            a href="/health" { "Health" }
        }
    }
}
