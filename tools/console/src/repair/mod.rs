//! What a repair would do, and the repair: of the plan that was shown, and no other.

pub(super) mod jobs;

use std::time::Duration;

use maud::{Markup, html};
use operations::{
    progress::Silent,
    repair::{Done, NOWHERE, Planned},
};
use serde::Deserialize;
use serde_json::{Value, json};

use self::jobs::{Look, Ready, State, Work};
use super::{
    app::App,
    aside,
    page::{self, Answer, Place, View},
    query::{self, given, link},
    redrive::{alone, named},
    value,
};
use crate::error::PageError;

/// The most steps that are shown. JSON has all.
const STEPS: usize = 200;
/// How long a request waits for a plan before it says that it takes longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What an address or a form asks for.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Query {
    #[serde(default, deserialize_with = "given")]
    id: Option<String>,
    #[serde(default, deserialize_with = "given")]
    all: Option<String>,
    #[serde(default, deserialize_with = "given")]
    stream: Option<String>,
    #[serde(default, deserialize_with = "given")]
    revive: Option<String>,
    #[serde(default, deserialize_with = "given")]
    plan: Option<String>,
}

/// The plan, or that it is being made.
pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let plan = match &query.plan {
        Some(plan) => plan.clone(),
        None => app.repairs.begin(Work {
            connection: app.connection.clone(),
            services: app.services.clone(),
            sources: app.sources.clone(),
            lag: app.lag,
            look: look(app, &query)?,
        }),
    };
    app.repairs.wait(&plan, PATIENCE).await;
    let shown = app.repairs.show(&plan, |look, state| show(app, &plan, look, state));
    shown.ok_or_else(|| {
        PageError::NotFound("there is no such plan, or no longer: it was carried out, or others came since".to_owned())
    })?
}

fn look(app: &App, query: &Query) -> Result<Look, PageError> {
    let (stream, revive) = (query.stream.is_some(), query.revive.is_some());
    let findings = match (&query.id, &query.all) {
        (Some(id), _) => {
            query::entity(Some(id))?;
            None
        }
        (None, Some(_)) => {
            let findings = app.audit.findings();
            let why = "what to repair is known from an audit that has ended: begin one on the page Health";
            Some(findings.ok_or_else(|| PageError::Conflict(why.to_owned()))?)
        }
        (None, None) => return Err(PageError::Invalid("the address names no entity: id".to_owned())),
    };
    Ok(Look {
        id: query.id.clone(),
        findings,
        stream,
        revive,
    })
}

fn show(app: &App, plan: &str, look: &Look, state: &State) -> Result<View, PageError> {
    let mut json = json!({"Plan": plan, "ID": look.id, "AllowWrite": app.writes.is_some(), "State": state.name()});
    let region = match state {
        State::Failed(why) => return Err(PageError::Unavailable(why.clone())),
        State::NotFound(why) => return Err(PageError::NotFound(why.clone())),
        State::Looking => html! {
            div #repair data-refresh="1000" data-refresh-from=(address(plan)) {
                p #repair-state role="status" { "Looking." }
                p { "A version that is missing may be on its way: it is waited for " (app.lag.as_secs()) " seconds." }
                p { a href=(address(plan)) { "Look again" } }
            }
        },
        State::Ready(ready) => {
            json["Steps"] = ready.plan.steps.iter().map(Planned::to_json).collect();
            json["Left"] = json!(ready.plan.left);
            if app.writes.is_some() && !ready.plan.is_empty() {
                json["Form"] = json!({"Action": "/repair", "csrf": app.secrets.csrf(), "plan": plan});
            }
            html! { div #repair { (shown_plan(app, plan, look, ready)) } }
        }
    };
    let body = html! {
        @if let Some(id) = &look.id {
            p { a href=(link("/entity", [("id", Some(id.clone()))])) { (value::word(id)) } }
        } @else {
            p { a href="/health" { "Health" } }
        }
        h1 { "What a repair would do" }
        (region)
    };
    Ok(View {
        title: "Repair".to_owned(),
        place: Place::Health,
        body,
        json,
    })
}

fn address(plan: &str) -> String {
    link("/repair", [("plan", Some(plan.to_owned()))])
}

fn shown_plan(app: &App, plan: &str, look: &Look, ready: &Ready) -> Markup {
    let lines = ready.plan.to_json();
    let left = ready.plan.left.len();
    html! {
        p #repair-state role="status" {
            @match (ready.plan.steps.len(), left) {
                (0, 0) => "There is nothing to repair.",
                (0, _) => "Nothing of it can be repaired from here.",
                (1, _) => "1 step.",
                (steps, _) => { (steps) " steps." }
            }
        }
        @if !lines.is_empty() { (table(&lines)) }
        (further(look, ready))
        @if !ready.plan.is_empty() {
            @if app.writes.is_some() {
                form method="post" action="/repair" {
                    (page::csrf(app))
                    input type="hidden" name="plan" value=(plan);
                    button { "Carry it out" }
                }
            } @else {
                p.note { "The console is read-only: start it with " code { "--allow-write" } " to carry this out from here, or use "
                    code { "vzero repair" } "." }
            }
        }
    }
}

/// Where else it can be looked.
fn further(look: &Look, ready: &Ready) -> Markup {
    let again = |stream: bool, revive: bool| {
        link(
            "/repair",
            [
                ("id", look.id.clone()),
                ("all", look.id.is_none().then(|| "1".to_owned())),
                ("stream", stream.then(|| "1".to_owned())),
                ("revive", revive.then(|| "1".to_owned())),
            ],
        )
    };
    let is = |name: &str, text: &str| ready.plan.left.iter().any(|left| left[name] == text);
    html! {
        @if !look.stream && is("Why", NOWHERE) {
            p { a href=(again(true, look.revive)) { "Look for what is missing in the table's stream as well" } }
        }
        @if !look.revive && is("Finding", "Orphan") {
            p { a href=(again(look.stream, true)) { "Make the latest item again, of the highest version" } }
        }
    }
}

fn table(lines: &[Value]) -> Markup {
    html! {
        div.scroll role="region" aria-label="The plan" tabindex="0" {
            table {
                caption { "The plan" }
                thead { tr { th scope="col" { "Step" } th scope="col" { "Of what" } } }
                tbody {
                    @for line in lines.iter().take(STEPS) {
                        @let step = line["Step"].as_str().unwrap_or_default();
                        tr {
                            th scope="row" class=[(step == "None").then_some("bad")] { @if step == "None" { "Left as it is" } @else { (step) } }
                            td { (named(&without_step(line))) }
                        }
                    }
                }
            }
        }
        @if lines.len() > STEPS { p.muted { "and " (lines.len() - STEPS) " more" } }
    }
}

fn without_step(line: &Value) -> Value {
    let members = line.as_object().into_iter().flatten();
    let members = members.filter(|(name, _)| *name != "Step");
    Value::Object(members.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Carries out a plan that was shown, once.
pub(super) async fn post(app: &App, query: Query) -> Result<Answer, PageError> {
    app.writes()?;
    let plan = query.plan.as_deref();
    let plan = plan.ok_or_else(|| PageError::Invalid("the form names no plan: plan".to_owned()))?;
    let guard = alone(app)?;
    let gone = "there is no such plan, or no longer: it was carried out, or others came since";
    let (look, ready) = app
        .repairs
        .take(plan)
        .ok_or_else(|| PageError::NotFound(gone.to_owned()))?;
    let (entities, left) = (ready.entities, ready.plan.left.len());
    let connection = app.connection.clone();
    let done = aside::run(async move || {
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
    Ok(Answer::View(View {
        title: "Repaired".to_owned(),
        place: Place::Health,
        body: carried_out(&look, &done, left, &summary),
        json: summary,
    }))
}

fn carried_out(look: &Look, done: &Done, left: usize, summary: &Value) -> Markup {
    let members: Vec<_> = summary.as_object().into_iter().flatten().collect();
    html! {
        h1 { "What the repair did" }
        @match done.verdict(left) {
            Ok(()) => p.good role="status" { "All is repaired." },
            Err(error) => p.bad role="status" { (error) },
        }
        div.scroll role="region" aria-label="Counts" tabindex="0" {
            table {
                caption { "What became of the steps" }
                thead { tr { th scope="col" { "What" } th scope="col" { "How many" } } }
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
                ul { @for one in list.iter().take(STEPS) { li { (named(one)) } } }
            }
        }
        p {
            @if let Some(id) = &look.id {
                a href=(link("/entity", [("id", Some(id.clone()))])) { (value::word(id)) } ", "
            }
            a href="/health" { "Health" }
        }
    }
}
