//! Measured write rate of a table: the metric `ConsumedWriteCapacityUnits` of CloudWatch.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_cloudwatch::{
    Client,
    error::DisplayErrorContext,
    primitives::DateTime,
    types::{Dimension, Statistic},
};

/// Period that is measured.
pub(super) const PERIOD: Duration = Duration::from_hours(14 * 24);
const DAY_SECONDS: i32 = 86_400;

/// Returns the consumed write units per second since the later of two times: the beginning of [`PERIOD`], and the creation of the
/// table. Times are since 1970. The error is the reason, in one line.
pub(super) async fn write_units(
    sdk: &SdkConfig,
    table: &str,
    created: Option<Duration>,
    now: Duration,
) -> Result<f64, String> {
    let start = now.saturating_sub(PERIOD).max(created.unwrap_or_default());
    let seconds = now.saturating_sub(start).as_secs_f64();
    if seconds < 1.0 {
        return Err("the table is new".to_owned());
    }
    let time = |time: Duration| DateTime::from_secs(i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
    let request = Client::new(sdk)
        .get_metric_statistics()
        .namespace("AWS/DynamoDB")
        .metric_name("ConsumedWriteCapacityUnits")
        .dimensions(Dimension::builder().name("TableName").value(table).build())
        .start_time(time(start))
        .end_time(time(now))
        .period(DAY_SECONDS)
        .statistics(Statistic::Sum);
    let output = request.send().await.map_err(|error| match error.as_service_error() {
        // The message of AWS names the user and the action.
        Some(error) => format!(
            "CloudWatch: {}",
            error.meta().code().unwrap_or("an error without a code")
        ),
        None => format!("CloudWatch: {}", DisplayErrorContext(error)),
    })?;
    let units: f64 = output.datapoints().iter().filter_map(|point| point.sum).sum();
    Ok(units / seconds)
}
