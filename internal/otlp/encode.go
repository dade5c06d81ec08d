package otlp

import (
	"math"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protowire"
)

const contentType = "application/x-protobuf"

// The functions below append messages of opentelemetry/proto, version 1. The numbers are those of the fields there. A field with its zero value is left
// out, as protobuf does it.

// appendRequest appends an ExportTraceServiceRequest: spans by resource, and in it by scope, in the order in which they first occur.
func appendRequest(b []byte, spans []sdktrace.ReadOnlySpan) []byte {
	type group struct {
		first  sdktrace.ReadOnlySpan
		scopes []instrumentation.Scope
		spans  map[instrumentation.Scope][]byte
	}
	var order []*group
	groups := map[attribute.Distinct]*group{}
	for _, s := range spans {
		key := s.Resource().Equivalent()
		g := groups[key]
		if g == nil {
			g = &group{first: s, spans: map[instrumentation.Scope][]byte{}}
			groups[key], order = g, append(order, g)
		}
		scope := s.InstrumentationScope()
		if _, ok := g.spans[scope]; !ok {
			g.scopes = append(g.scopes, scope)
		}
		g.spans[scope] = appendMessage(g.spans[scope], 2, appendSpan(nil, s))
	}
	for _, g := range order {
		resource := appendMessage(nil, 1, appendAttributes(nil, 1, g.first.Resource().Attributes()))
		for _, scope := range g.scopes {
			resource = appendMessage(resource, 2, appendScope(nil, scope, g.spans[scope]))
		}
		b = appendMessage(b, 1, appendString(resource, 3, g.first.Resource().SchemaURL()))
	}
	return b
}

// appendScope appends a ScopeSpans; spans are its fields with the number 2.
func appendScope(b []byte, scope instrumentation.Scope, spans []byte) []byte {
	name := appendString(appendString(nil, 1, scope.Name), 2, scope.Version)
	b = appendMessage(b, 1, appendAttributes(name, 3, scope.Attributes.ToSlice()))
	b = append(b, spans...)
	return appendString(b, 3, scope.SchemaURL)
}

func appendSpan(b []byte, s sdktrace.ReadOnlySpan) []byte {
	own, parent := s.SpanContext(), s.Parent()
	b = appendContext(b, own)
	if id := parent.SpanID(); id.IsValid() {
		b = appendMessage(b, 4, id[:])
	}
	b = appendString(b, 5, s.Name())
	b = appendNumber(b, 6, int(s.SpanKind())) // internal is 1 in both, and so on
	b = appendTime(b, 7, s.StartTime())
	b = appendTime(b, 8, s.EndTime())
	b = appendAttributes(b, 9, s.Attributes())
	b = appendNumber(b, 10, s.DroppedAttributes())
	for _, e := range s.Events() {
		event := appendString(appendTime(nil, 1, e.Time), 2, e.Name)
		event = appendAttributes(event, 3, e.Attributes)
		b = appendMessage(b, 11, appendNumber(event, 4, e.DroppedAttributeCount))
	}
	b = appendNumber(b, 12, s.DroppedEvents())
	for _, l := range s.Links() {
		link := appendAttributes(appendContext(nil, l.SpanContext), 4, l.Attributes)
		link = appendNumber(link, 5, l.DroppedAttributeCount)
		b = appendMessage(b, 13, appendFlags(link, 6, l.SpanContext, l.SpanContext))
	}
	b = appendNumber(b, 14, s.DroppedLinks())
	b = appendMessage(b, 15, appendStatus(nil, s.Status()))
	return appendFlags(b, 16, own, parent)
}

// appendContext appends the first three fields of a span or a link.
func appendContext(b []byte, c trace.SpanContext) []byte {
	traceID, spanID := c.TraceID(), c.SpanID()
	b = appendMessage(b, 1, traceID[:])
	b = appendMessage(b, 2, spanID[:])
	return appendString(b, 3, c.TraceState().String())
}

// appendFlags appends the flags of a span, and whether the other one, its parent or what it links to, is in another process.
func appendFlags(b []byte, field protowire.Number, own, other trace.SpanContext) []byte {
	const known, remote = 0x100, 0x200
	flags := uint32(own.TraceFlags()) | known
	if other.IsRemote() {
		flags |= remote
	}
	return protowire.AppendFixed32(protowire.AppendTag(b, field, protowire.Fixed32Type), flags)
}

func appendStatus(b []byte, s sdktrace.Status) []byte {
	code := 0
	switch s.Code {
	case codes.Ok:
		code = 1
	case codes.Error:
		code = 2
	}
	return appendNumber(appendString(b, 2, s.Description), 3, code)
}

// appendAttributes appends a KeyValue for each attribute.
func appendAttributes(b []byte, field protowire.Number, list []attribute.KeyValue) []byte {
	for _, a := range list {
		b = appendMessage(b, field, appendMessage(appendString(nil, 1, string(a.Key)), 2, appendValue(nil, a.Value)))
	}
	return b
}

// appendValue appends an AnyValue. Zero values are written too, because the field says which type it is.
func appendValue(b []byte, v attribute.Value) []byte {
	switch v.Type() {
	case attribute.STRING:
		return protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), valid(v.AsString()))
	case attribute.BOOL:
		return protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), protowire.EncodeBool(v.AsBool()))
	case attribute.INT64:
		return protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), uint64(v.AsInt64()))
	case attribute.FLOAT64:
		return protowire.AppendFixed64(protowire.AppendTag(b, 4, protowire.Fixed64Type), math.Float64bits(v.AsFloat64()))
	case attribute.BYTESLICE:
		return appendMessage(b, 7, v.AsByteSlice())
	case attribute.EMPTY:
		return b
	}
	var array []byte
	for _, element := range elements(v) {
		array = appendMessage(array, 1, appendValue(nil, element))
	}
	return appendMessage(b, 5, array)
}

// elements are the values in a list.
func elements(v attribute.Value) []attribute.Value {
	switch v.Type() {
	case attribute.BOOLSLICE:
		return each(v.AsBoolSlice(), attribute.BoolValue)
	case attribute.INT64SLICE:
		return each(v.AsInt64Slice(), attribute.Int64Value)
	case attribute.FLOAT64SLICE:
		return each(v.AsFloat64Slice(), attribute.Float64Value)
	case attribute.STRINGSLICE:
		return each(v.AsStringSlice(), attribute.StringValue)
	case attribute.SLICE:
		return v.AsSlice()
	}
	return []attribute.Value{attribute.StringValue(v.String())} // a type that is newer than this code
}

func each[T any](list []T, value func(T) attribute.Value) []attribute.Value {
	values := make([]attribute.Value, len(list))
	for i, v := range list {
		values[i] = value(v)
	}
	return values
}

// appendMessage appends a message, or bytes, also when it is empty.
func appendMessage(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}

// valid replaces what is not UTF-8: a receiver refuses the whole message because of it.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func appendString(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), valid(s))
}

func appendNumber(b []byte, field protowire.Number, n int) []byte {
	if n <= 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(n))
}

func appendTime(b []byte, field protowire.Number, t time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), uint64(max(0, t.UnixNano())))
}

// readAnswer reads an ExportTraceServiceResponse.
func readAnswer(b []byte) (refused int64, message string, err error) {
	err = readFields(b, func(field protowire.Number, _ uint64, partial []byte) error {
		if field != 1 {
			return nil
		}
		return readFields(partial, func(field protowire.Number, n uint64, text []byte) error {
			switch field {
			case 1:
				refused = int64(n)
			case 2:
				message = string(text)
			}
			return nil
		})
	})
	return refused, message, err
}

// readFields calls fn with each field that is a number or bytes.
func readFields(b []byte, fn func(field protowire.Number, n uint64, text []byte) error) error {
	for len(b) > 0 {
		field, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		var n uint64
		var text []byte
		switch kind {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			text, size = protowire.ConsumeBytes(b)
		default:
			size = protowire.ConsumeFieldValue(field, kind, b)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		b = b[size:]
		if err := fn(field, n, text); err != nil {
			return err
		}
	}
	return nil
}
