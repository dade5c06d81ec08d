package otlp

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

func text(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
}

func number(n int64) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: n}}
}

func truth(b bool) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: b}}
}

func float(f float64) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: f}}
}

func array(values ...*commonpb.AnyValue) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: values}}}
}

// The published protobuf types read what the exporter writes: every field of a span, every type of attribute. ExportTraceServiceRequest has the
// same fields as TracesData, which can be linked without gRPC.
func TestSpansAreOTLP(t *testing.T) {
	state, err := trace.ParseTraceState("vendor=1")
	if err != nil {
		t.Fatal(err)
	}
	own := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 2, 15: 16}, SpanID: trace.SpanID{3, 7: 9}, TraceFlags: trace.FlagsSampled, TraceState: state})
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: own.TraceID(), SpanID: trace.SpanID{4, 7: 8}, Remote: true})
	linked := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{7, 15: 1}, SpanID: trace.SpanID{5, 7: 5}, TraceState: state})
	begin := time.Unix(1_700_000_000, 123_456_789)
	service := resource.NewWithAttributes("https://schema.example/resource", attribute.String("service.name", "parley"))
	scope := instrumentation.Scope{Name: "parley", Version: "v1", SchemaURL: "https://schema.example/scope", Attributes: attribute.NewSet(attribute.Int("level", 2))}
	stubs := tracetest.SpanStubs{
		{
			Name: "turn", SpanContext: own, Parent: parent, SpanKind: trace.SpanKindServer, StartTime: begin, EndTime: begin.Add(time.Second),
			Attributes: []attribute.KeyValue{
				attribute.String("text", "Grüße"), attribute.String("empty", ""), attribute.String("broken", "a\xffb"), attribute.Bool("yes", true), attribute.Bool("no", false),
				attribute.Int64("negative", -5), attribute.Int64("zero", 0), attribute.Float64("half", 0.5), attribute.ByteSlice("bytes", []byte{0, 255}),
				attribute.StringSlice("texts", []string{"a", ""}), attribute.Int64Slice("numbers", []int64{1, -1}), attribute.BoolSlice("bools", []bool{true, false}),
				attribute.Float64Slice("floats", []float64{1.5}), attribute.StringSlice("none", nil), attribute.Slice("mixed", attribute.BoolValue(true), attribute.SliceValue(attribute.IntValue(2))), {Key: "nothing"},
			},
			Events:            []sdktrace.Event{{Name: "started", Time: begin.Add(time.Millisecond), Attributes: []attribute.KeyValue{attribute.Int("n", 1)}, DroppedAttributeCount: 2}},
			Links:             []sdktrace.Link{{SpanContext: linked, Attributes: []attribute.KeyValue{attribute.Int("l", 3)}, DroppedAttributeCount: 4}},
			Status:            sdktrace.Status{Code: codes.Error, Description: "it broke"},
			DroppedAttributes: 5, DroppedEvents: 6, DroppedLinks: 300,
			Resource: service, InstrumentationScope: scope,
		},
		{Name: "second", SpanContext: linked, StartTime: begin, EndTime: begin, Status: sdktrace.Status{Code: codes.Ok}, Resource: service, InstrumentationScope: scope},
		{Name: "other scope", SpanContext: own, StartTime: begin, EndTime: begin, Resource: service},
		{Name: "other resource", SpanContext: own, SpanKind: trace.SpanKindConsumer, StartTime: begin, EndTime: begin, Resource: resource.NewSchemaless(attribute.String("service.name", "other"))},
	}
	id := func(n byte, last byte, size int) []byte { b := make([]byte, size); b[0], b[size-1] = n, last; return b }
	traceID := append([]byte{1, 2}, id(0, 16, 14)...)
	at := uint64(begin.UnixNano())
	pair := func(key string, v *commonpb.AnyValue) *commonpb.KeyValue {
		return &commonpb.KeyValue{Key: key, Value: v}
	}
	want := &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{
		{
			Resource:  &resourcepb.Resource{Attributes: []*commonpb.KeyValue{pair("service.name", text("parley"))}},
			SchemaUrl: "https://schema.example/resource",
			ScopeSpans: []*tracepb.ScopeSpans{
				{
					Scope:     &commonpb.InstrumentationScope{Name: "parley", Version: "v1", Attributes: []*commonpb.KeyValue{pair("level", number(2))}},
					SchemaUrl: "https://schema.example/scope",
					Spans: []*tracepb.Span{
						{
							TraceId: traceID, SpanId: id(3, 9, 8), TraceState: "vendor=1", ParentSpanId: id(4, 8, 8), Flags: 0x301,
							Name: "turn", Kind: tracepb.Span_SPAN_KIND_SERVER, StartTimeUnixNano: at, EndTimeUnixNano: at + 1e9,
							Attributes: []*commonpb.KeyValue{
								pair("text", text("Grüße")), pair("empty", text("")), pair("broken", text("a\uFFFDb")), pair("yes", truth(true)), pair("no", truth(false)),
								pair("negative", number(-5)), pair("zero", number(0)), pair("half", float(0.5)),
								pair("bytes", &commonpb.AnyValue{Value: &commonpb.AnyValue_BytesValue{BytesValue: []byte{0, 255}}}),
								pair("texts", array(text("a"), text(""))), pair("numbers", array(number(1), number(-1))), pair("bools", array(truth(true), truth(false))),
								pair("floats", array(float(1.5))), pair("none", array()), pair("mixed", array(truth(true), array(number(2)))), pair("nothing", &commonpb.AnyValue{}),
							},
							DroppedAttributesCount: 5,
							Events:                 []*tracepb.Span_Event{{TimeUnixNano: at + 1e6, Name: "started", Attributes: []*commonpb.KeyValue{pair("n", number(1))}, DroppedAttributesCount: 2}},
							DroppedEventsCount:     6,
							Links:                  []*tracepb.Span_Link{{TraceId: id(7, 1, 16), SpanId: id(5, 5, 8), TraceState: "vendor=1", Attributes: []*commonpb.KeyValue{pair("l", number(3))}, DroppedAttributesCount: 4, Flags: 0x100}},
							DroppedLinksCount:      300,
							Status:                 &tracepb.Status{Message: "it broke", Code: tracepb.Status_STATUS_CODE_ERROR},
						},
						{TraceId: id(7, 1, 16), SpanId: id(5, 5, 8), TraceState: "vendor=1", Flags: 0x100, Name: "second", StartTimeUnixNano: at, EndTimeUnixNano: at, Status: &tracepb.Status{Code: tracepb.Status_STATUS_CODE_OK}},
					},
				},
				{
					Scope: &commonpb.InstrumentationScope{},
					Spans: []*tracepb.Span{{TraceId: traceID, SpanId: id(3, 9, 8), TraceState: "vendor=1", Flags: 0x101, Name: "other scope", StartTimeUnixNano: at, EndTimeUnixNano: at, Status: &tracepb.Status{}}},
				},
			},
		},
		{
			Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{pair("service.name", text("other"))}},
			ScopeSpans: []*tracepb.ScopeSpans{{
				Scope: &commonpb.InstrumentationScope{},
				Spans: []*tracepb.Span{{TraceId: traceID, SpanId: id(3, 9, 8), TraceState: "vendor=1", Flags: 0x101, Name: "other resource", Kind: tracepb.Span_SPAN_KIND_CONSUMER, StartTimeUnixNano: at, EndTimeUnixNano: at, Status: &tracepb.Status{}}},
			}},
		},
	}}
	var got tracepb.TracesData
	if err := proto.Unmarshal(appendRequest(nil, stubs.Snapshots()), &got); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(&got, want) {
		t.Errorf("got\n%s\nwant\n%s", prototext.Format(&got), prototext.Format(want))
	}
}
