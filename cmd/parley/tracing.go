package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	"github.com/parley-hq/parley/internal/otlp"
)

// tracing returns the provider that sends spans to a collector.
func tracing(endpoint string, log *slog.Logger) (*sdktrace.TracerProvider, error) {
	shown := collectorName(endpoint)
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, errors.New("--otlp is not the address of a collector: use something like http://127.0.0.1:4318")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("--otlp %q is not the address of a collector: use something like http://127.0.0.1:4318", shown)
	}
	// Without a handler the library writes to standard error.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("traces could not be sent", "collector", shown, "err", err)
	}))
	exporter, err := otlp.New(endpoint, log)
	if err != nil {
		return nil, fmt.Errorf("traces cannot be sent to %s: %w", shown, err)
	}
	about := resource.NewSchemaless(semconv.ServiceName("parley"), semconv.ServiceVersion(version))
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)), nil
}

// collectorName is the address of a collector without its password. What cannot be read as an address is not shown: it may have one.
func collectorName(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	return u.Redacted()
}
