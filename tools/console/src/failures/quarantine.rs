//! Records of one entity that are in quarantine.

use maud::{Markup, html};
use shared::domain::{keys::VersionDigits, quarantine::QuarantinedRecord};

use super::{document_view::RecordView, show};
use crate::{time, value};

/// Renders the records with their reasons and images, nothing if there are none.
pub(crate) fn section(records: &[QuarantinedRecord], digits: VersionDigits) -> Markup {
    html! {
        @if !records.is_empty() {
            h2 #quarantine { "Quarantine" }
            p.note { "These changes can never become a version. " code { "vzero admin repair" } " stores those that can be stored after a repair, "
                code { "vzero admin redrive quarantine:ID --drop-conflicts --drop-malformed" } " deletes them." }
            div.scroll role="region" aria-label="Records in quarantine" tabindex="0" {
                table {
                    caption { "Records in quarantine" }
                    thead { tr { @for name in ["Version", "Kind", "Reason", "Time", "Image", "Sequence number"] { th scope="col" { (name) } } } }
                    tbody { @for record in records { (row(record, digits)) } }
                }
            }
        }
    }
}

fn row(record: &QuarantinedRecord, digits: VersionDigits) -> Markup {
    html! {
        tr {
            td { @if let Some(version) = record.version { (version) } }
            td { span.bad { (value::word(&record.kind)) } }
            td { (value::word(&record.reason)) }
            td { @if let Some(at) = record.at { (time::recorded(at)) } }
            td { (show::image(&RecordView::new(&record.record, digits).image)) }
            td { (value::word(record.number.as_str())) }
        }
    }
}
