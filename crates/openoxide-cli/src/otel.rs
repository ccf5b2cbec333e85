//! Spans to an OpenTelemetry collector, by OTLP over HTTP, where the environment names one (`OTEL_EXPORTER_OTLP_ENDPOINT`).
//!
//! Built with `--features otel`. A call whose `_meta` has a `traceparent` continues the trace of its caller.

use std::collections::HashMap;

use anyhow::Context as _;
use openoxide_mcp_server::TraceContext;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::registry::LookupSpan;

/// Sends what is left when it is dropped.
pub(crate) struct Exporting(SdkTracerProvider);

impl Drop for Exporting {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown() {
            crate::log::say(&format!("the last spans were not exported: {error}"));
        }
    }
}

/// The layer that exports spans, where the environment names a collector.
///
/// # Errors
/// The environment's settings are not understood.
pub(crate) fn layer<S>() -> anyhow::Result<Option<(impl Layer<S>, Exporting)>>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let is_set = |name| crate::config::variable(name).is_ok_and(|value| !value.is_empty());
    if !is_set("OTEL_EXPORTER_OTLP_ENDPOINT") && !is_set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
        return Ok(None);
    }
    // The exporter's client wants one, as the provider adapters' does.
    openoxide_providers::install_crypto();
    let exporter = SpanExporter::builder().with_http().build().context("OTEL_EXPORTER_OTLP_ENDPOINT")?;
    let resource = Resource::builder().with_service_name("openoxide").build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("openoxide")).with_filter(LevelFilter::INFO);
    Ok(Some((layer, Exporting(provider))))
}

/// Makes the span of a call part of its caller's trace.
pub(crate) fn continue_trace(span: &tracing::Span, trace: &TraceContext) {
    let mut carrier = HashMap::from([("traceparent".to_owned(), trace.parent.clone())]);
    if let Some(state) = &trace.state {
        carrier.insert("tracestate".to_owned(), state.clone());
    }
    // A span that is not exported has no parent to set.
    let _ = span.set_parent(TraceContextPropagator::new().extract(&carrier));
}
