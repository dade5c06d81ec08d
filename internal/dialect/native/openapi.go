package native

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
)

// object is a JSON object of the document.
type object = map[string]any

// document builds the OpenAPI 3.1 document from the table of operations and the
// Go types.
func (d *Dialect) document() object {
	s := schemas{defs: object{}}
	paths := object{}
	for _, op := range d.operations() {
		path := strings.ReplaceAll(op.path, "...}", "}")
		item, _ := paths[path].(object)
		if item == nil {
			item = object{}
			paths[path] = item
		}
		item[strings.ToLower(op.method)] = s.operation(op, path)
	}
	s.events()
	s.frames()
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Parley", "version": d.opt.Version,
			"description": "The conversation layer between agents and people: sessions as durable logs that any client follows live and resumes exactly.",
			"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []object{{"url": "/"}},
		"paths":    paths,
		"security": []object{{}, {"bearer": []string{}}},
		"components": object{
			"schemas":         s.defs,
			"securitySchemes": object{"bearer": object{"type": "http", "scheme": "bearer"}},
			"responses": object{"Error": object{
				"description": "What happened, why, and what to do.",
				"content":     object{"application/json": object{"schema": s.of(reflect.TypeOf(edge.Error{}))}},
			}},
		},
	}
}

// schemas collects the JSON Schemas of Go types.
type schemas struct{ defs object }

func (s schemas) operation(op operation, path string) object {
	var params []object
	for name := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(name, "{"); ok {
			params = append(params, object{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	for _, p := range op.query {
		params = append(params, object{"name": p.name, "in": "query", "description": p.says, "schema": object{"type": p.kind}})
	}
	success := object{"description": "Done."}
	in, out := cmp.Or(op.in, op.do.in), cmp.Or(op.out, op.do.out)
	switch {
	case out != nil:
		success["content"] = object{"application/json": object{"schema": s.of(reflect.TypeOf(out))}}
	case op.outType != "":
		success["content"] = object{op.outType: object{}}
	}
	o := object{
		"operationId": op.name, "description": op.says,
		"responses": object{strconv.Itoa(op.code): success, "default": object{"$ref": "#/components/responses/Error"}},
	}
	if len(params) > 0 {
		o["parameters"] = params
	}
	switch {
	case in != nil:
		schema := s.of(reflect.TypeOf(in))
		switch in.(type) {
		case draftBody, previewBody: // one, or an array
			schema = object{"oneOf": []any{schema, object{"type": "array", "items": schema, "minItems": 1}}}
		}
		o["requestBody"] = object{"content": object{"application/json": object{"schema": schema}}}
	case op.inType != "":
		o["requestBody"] = object{"content": object{op.inType: object{}}, "required": true}
	}
	return o
}

// events adds the payload of every event type.
func (s schemas) events() {
	all := chat.Kinds()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s.of(reflect.TypeOf(all[name]))
	}
}

// frames adds the frames of streams and sockets, which no route names.
func (s schemas) frames() {
	for _, f := range []any{clientFrame{}, serverFrame{}, helloFrame{}, pingFrame{}, byeFrame{}, chat.Preview{}} {
		s.of(reflect.TypeOf(f))
	}
}

var (
	typeRaw    = reflect.TypeFor[json.RawMessage]()
	typeAt     = reflect.TypeFor[chat.At]()
	typeCursor = reflect.TypeFor[chat.Cursor]()
	typeEvent  = reflect.TypeFor[chat.Event]()
	typeAgents = reflect.TypeFor[agentsBody]()
	typeInfo   = reflect.TypeFor[chat.Info]()
)

// of returns the schema of a type; named structs are kept once and referred to.
func (s schemas) of(t reflect.Type) object {
	switch t {
	case typeRaw:
		return object{}
	case typeAt:
		return object{"type": "string", "format": "date-time"}
	case typeCursor:
		return object{"type": "string", "pattern": `^[0-9]+(~[A-Za-z0-9_-]{1,64}\.[0-9]+)*$`}
	case typeInfo:
		return object{"type": "object"}
	case typeAgents:
		return object{"type": "object", "required": []string{"agents"}, "properties": object{
			"agents": object{"type": "array", "items": s.of(reflect.TypeFor[agentInfo]())},
		}}
	case typeEvent:
		s.defs["Event"] = eventSchema(s)
		return object{"$ref": "#/components/schemas/Event"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.structure(t)
	}
	return object{}
}

func (s schemas) structure(t reflect.Type) object {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	ref := object{"$ref": "#/components/schemas/" + name}
	if _, known := s.defs[name]; known {
		return ref
	}
	props, required := object{}, []string{}
	def := object{"type": "object", "properties": props}
	s.defs[name] = def // before the fields: a type may refer to itself
	for f := range fields(t) {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "-" || tag == "" {
			continue
		}
		props[tag] = s.of(f.Type)
		if !strings.Contains(options, "omit") && f.Type.Kind() != reflect.Pointer {
			required = append(required, tag)
		}
	}
	if len(required) > 0 {
		def["required"] = required
	}
	return ref
}

// fields yields the fields of a struct, those of embedded structs included.
func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Anonymous && f.Tag.Get("json") == "" && f.Type.Kind() == reflect.Struct {
				for g := range fields(f.Type) {
					if !yield(g) {
						return
					}
				}
				continue
			}
			if f.IsExported() && !yield(f) {
				return
			}
		}
	}
}

// eventSchema describes the envelope, which chat.Event writes by hand.
func eventSchema(s schemas) object {
	text := object{"type": "string"}
	return object{
		"type":     "object",
		"required": []string{"session_id", "sequence", "timestamp", "type", "payload"},
		"properties": object{
			"session_id": text, "sequence": object{"type": "integer", "minimum": 1},
			"timestamp": object{"type": "string", "format": "date-time"}, "type": text, "payload": object{},
			"id": text, "turn_id": text, "workstream_id": text, "actor": s.of(reflect.TypeFor[chat.Actor]()),
			"parent_id": text, "client_id": text, "via": text, "prev": text,
		},
	}
}
