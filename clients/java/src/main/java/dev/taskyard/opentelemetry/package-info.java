/**
 * Traces by OpenTelemetry. What is in here needs {@code io.opentelemetry:opentelemetry-api}, an optional dependency; the
 * program sets up the SDK.
 */
package dev.taskyard.opentelemetry;
