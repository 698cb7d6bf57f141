//! Request that updates the latest item, in the [`Form`] that fits it.

use aws_sdk_dynamodb::{
    operation::update_item::builders::UpdateItemInputBuilder,
    types::{ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use shared::{
    config::Window,
    domain::{
        Item, attribution, incarnation::Incarnation, keys::LATEST_KEY, names, recorded_at::RecordedAt,
        version_item::InvalidImage,
    },
    dynamodb::{expression::Expression, key, n, s},
};

use crate::{
    counter::{
        earlier_delivery::EarlierDeliveries,
        lifetime::Lifetime,
        order::Order,
        recent_requests::change::{Contention, RecentRequests},
        rules::{self, Rule, assign},
        stamp::Stamp,
    },
    update::{Update, payload::Payload},
};

/// Form of an update, which depends on the latest item.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    /// Form in which the request is stored.
    pub recent_requests: RecentRequests,
    /// Time of the version.
    pub stamp: Stamp,
    /// Protection against a second application.
    pub earlier: EarlierDeliveries,
    /// Lifetime of the latest item.
    pub lifetime: Lifetime,
    /// Order by time.
    pub order: Order,
}

impl Form {
    /// Returns the form of a first attempt on the latest item that most updates meet, with this form of the request.
    pub(crate) fn first(recent_requests: RecentRequests, now: RecordedAt) -> Self {
        Self {
            recent_requests,
            stamp: Stamp::At(now),
            earlier: EarlierDeliveries::default(),
            lifetime: Lifetime::default(),
            order: Order::default(),
        }
    }

    /// Returns the form that most latest items need.
    pub(crate) fn assumed(update: &Update, window: Window, now: RecordedAt) -> Self {
        Self {
            earlier: EarlierDeliveries::of(update, now),
            ..Self::first(RecentRequests::assumed(update, window, now), now)
        }
    }

    /// Changes the form to the one that fits a stored latest item, after this one did not. History was searched already if the
    /// [search](EarlierDeliveries::is_complete_in) is needed. `first` is the time of the first attempt.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidImage`] if the latest item has no valid version.
    pub(crate) fn fit(
        &mut self,
        update: &Update,
        window: Window,
        now: RecordedAt,
        first: RecordedAt,
        stored: Option<&Item>,
    ) -> Result<(), InvalidImage> {
        self.stamp = self.stamp.after_failure(now, first, stored);
        let contention = match &self.stamp {
            _ if self.recent_requests.has_removal() => Contention::LostRemoval,
            // Another writer was faster, or its clock is ahead.
            Stamp::Tick { .. } => Contention::LostRace,
            _ => Contention::None,
        };
        self.recent_requests = RecentRequests::fitting(update, window, now, stored, contention)?;
        self.earlier = self.earlier.after_check(stored)?;
        self.lifetime = Lifetime::fitting(update, stored);
        self.order = Order::fitting(stored);
        Ok(())
    }

    /// Returns `true` if other rules or changes of the form imply a rule of the update.
    fn implies(&self, rule: Rule) -> bool {
        match rule {
            // There is no map yet, or the ledger has the request, and the version that was read is required.
            rules::NOT_RECENT_REQUEST => !self.recent_requests.is_added(),
            rules::RATCHET => self.order.0.is_some(),
            rules::MEMBER_MAPS => true,
            _ => false,
        }
    }
}

/// Returns `true` if one request removes all attributes of the stored item whose state has ended, or if there are none.
pub(crate) fn removes_ended_state(update: &Update, form: &Form) -> bool {
    let ended = form.lifetime.ended();
    if ended.is_empty() {
        return true;
    }
    let expression = expression(update, form);
    expression.removed_names() == ended.len() && expression.fits()
}

/// Builds the request.
pub fn request(update: &Update, form: &Form, table: &str) -> UpdateItemInputBuilder {
    let request = UpdateItemInputBuilder::default()
        .table_name(table)
        .set_key(Some(key(update.entity.as_str(), LATEST_KEY)))
        .return_values(ReturnValue::UpdatedNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    expression(update, form).apply_to_request(request)
}

/// Builds the changes of the latest item and their condition.
pub(crate) fn expression(update: &Update, form: &Form) -> Expression {
    let mut expression = Expression::default();
    expression.value(":zero", n(0)).value(":one", n(1));
    rules::set(&mut expression, "#latest = if_not_exists(#latest, :zero) + :one");
    assign(&mut expression, "#request = :request", s(update.request_id.as_str()));
    rules::of_update(update, &mut expression, |rule| form.implies(rule));
    form.recent_requests.add_to(&mut expression);
    form.earlier.add_to(&mut expression);
    form.lifetime.add_to(&mut expression, update);
    // Its calculation takes long for a large update.
    let payload = form.recent_requests.payload().cloned();
    let payload = payload.unwrap_or_else(|| update.payload());
    add_record(&mut expression, update, &payload, &form.stamp);
    if let Some(timestamp) = update.timestamp {
        form.order.add_to(&mut expression, timestamp);
    }
    form.lifetime.add_changes(&mut expression, update);
    expression
}

/// Adds the attributes that describe the new version, and removes those of the version before.
fn add_record(expression: &mut Expression, update: &Update, payload: &Payload, stamp: &Stamp) {
    let incarnation = Incarnation::started_by(&update.request_id, stamp.clock());
    expression.value(":incarnation", s(incarnation.as_str()));
    rules::set(expression, "#incarnation = if_not_exists(#incarnation, :incarnation)");
    rules::set(expression, "#version = if_not_exists(#latest, :zero) + :one");
    assign(expression, "#payload = :payload", s(payload.short()));
    stamp.add_to(expression);
    for (index, name) in attribution::OF_CLIENT.into_iter().enumerate() {
        let is_set = update.changes.contains_key(name) || (name == names::TIMESTAMP && update.timestamp.is_some());
        if !is_set {
            let placeholder = format!("#c{index}");
            expression.remove(&placeholder).name(placeholder, name);
        }
    }
    for (placeholder, clause, value) in [
        ("#sender", "#sender = :sender", update.sender.as_ref().map(s)),
        ("#restored", "#restored = :restored", update.restored_from.map(n)),
        ("#size", "#size = :size", update.change_set_size.map(n)),
    ] {
        match value {
            Some(value) => assign(expression, clause, value),
            None => rules::remove(expression, placeholder),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use shared::{config::Ordering, domain::version::Version};

    use super::*;

    #[test]
    fn the_form_that_fits_an_item_applies_the_update_to_it() {
        const LATER: u64 = 9000;
        let window = Window::default();
        let now = RecordedAt::since_epoch(std::time::Duration::from_secs(1));
        let times = [
            json!({}),
            json!({"Time": {"S": "1970-01-01T00:00:01"}}),
            json!({"Timestamp": {"N": "1000"}}),
        ];
        for (time, dropped) in times.iter().flat_map(|time| [(time, false), (time, true)]) {
            for entries in [1, window.get(), window.full(), window.max_entries()] {
                for members in [json!({}), json!({"ExpectedVersion": 200}), json!({"Deleted": true})] {
                    let mut json = members.clone();
                    (json["ID"], json["Timestamp"]) = (json!("E"), json!(LATER));
                    let update = Update::parse(json, "r-default", Ordering::Time).unwrap();
                    let requests = (0..entries).map(|index| (format!("h{index:07}"), json!({"N": index.to_string()})));
                    let requests: serde_json::Map<_, _> = requests.collect();
                    let mut stored = time.clone();
                    (stored["Latest"], stored["RecentRequests"]) = (json!({"N": "200"}), json!({"M": requests}));
                    if dropped {
                        stored["RequestsDropped"] = json!({"N": "7"});
                    }
                    let stored: Item = serde_json::from_value(stored).unwrap();
                    let mut form = Form::assumed(&update, window, now);
                    form.fit(&update, window, now, now, Some(&stored)).unwrap();
                    let applies = expression(&update, &form).holds(Some(&stored));
                    assert!(applies, "{time} {dropped} {entries} {members}");
                }
            }
        }
    }

    #[test]
    fn the_largest_update_fits_an_expression() {
        const MAX: usize = crate::update::MAX_ATTRIBUTES;
        let flat = (0..MAX).map(|index| (format!("Attribute{index}"), json!(index)));
        largest(flat.collect());
        // One member in each map, all members in one map, and members as deep as possible.
        let small = (0..MAX / 6).map(|index| (format!("A{index}"), json!({"$update": {"M": index}})));
        largest(small.collect());
        let members: serde_json::Map<_, _> = (0..MAX / 2 - 2)
            .map(|index| (format!("M{index}"), json!(index)))
            .collect();
        largest(vec![("A".to_owned(), json!({"$update": members}))]);
        let deep = (0..MAX / 151).map(|index| {
            let value = (0..30).fold(json!(index), |value, _| json!({"$update": {"M": value}}));
            (format!("A{index}"), value)
        });
        largest(deep.collect());
    }

    /// Checks the length of the expressions of an update with these attributes.
    fn largest(members: Vec<(String, Value)>) {
        let members = members.into_iter().chain([("ID".to_owned(), json!("E"))]);
        let members = members.chain([("ExpectedVersion".to_owned(), json!(1))]);
        let members = members.chain([("Timestamp".to_owned(), json!(1))]);
        let update = Update::parse(Value::Object(members.collect()), "r-default", Ordering::Time).unwrap();
        let requests =
            (1..=2 * u32::from(Window::MAX)).map(|number| (format!("h{number:07}"), json!({"N": number.to_string()})));
        let stored =
            json!({"Latest": {"N": "1"}, "RecentRequests": {"M": requests.collect::<serde_json::Map<_, _>>()}});
        let window = Window::new(Window::MAX / 2).unwrap();
        let now = RecordedAt::since_epoch(std::time::Duration::from_secs(1));
        let stored: Item = serde_json::from_value(stored).unwrap();
        let recent_requests = RecentRequests::fitting(&update, window, now, Some(&stored), Contention::None);
        let form = Form {
            stamp: Stamp::Tick { from: now },
            earlier: EarlierDeliveries {
                base: Some(Version::FIRST),
                ..EarlierDeliveries::default()
            },
            ..Form::first(recent_requests.unwrap(), now)
        };
        let request = request(&update, &form, "T");
        // The maximum length of an expression is 4 KB.
        assert!(request.get_update_expression().as_ref().unwrap().len() <= 4096);
        assert!(request.get_condition_expression().as_ref().unwrap().len() <= 4096);
    }
}
