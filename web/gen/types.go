package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// roots are the types that the native API returns or accepts, besides the payloads of events. Types that they refer to are
// declared too.
var roots = []any{
	chat.Session{}, chat.SessionPage{}, chat.NewSession{}, chat.Fork{}, chat.Snapshot{}, chat.Item{}, chat.ItemPage{}, chat.SearchPage{},
	chat.View{}, chat.Preview{}, chat.Block{}, chat.Prompt{}, chat.Answer{}, chat.Receipt{}, chat.StopResult{}, chat.FileInfo{},
	chat.Assignment{}, agent.Info{},
}

// renamed are types whose Go name is not clear without its package, or has another meaning in a browser.
var renamed = map[string]string{"agent.Info": "AgentInfo", "chat.At": "Time", "chat.Code": "ErrorCode", "chat.Block": "OpenBlock"}

var (
	typeRaw    = reflect.TypeFor[json.RawMessage]()
	typeAt     = reflect.TypeFor[chat.At]()
	typeCursor = reflect.TypeFor[chat.Cursor]()
	typeEvent  = reflect.TypeFor[chat.Event]()
	typeItem   = reflect.TypeFor[chat.Item]()
	typeInfo   = reflect.TypeFor[chat.Info]()
)

// writer collects declarations by name.
type writer struct {
	src    map[string]source // by package name
	decls  map[string]string
	shapes map[string]string
}

func generate(root string) ([]byte, error) {
	w := &writer{src: map[string]source{}, decls: map[string]string{}, shapes: map[string]string{}}
	for _, name := range []string{"chat", "agent"} {
		src, err := readSource(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		w.src[name] = src
	}
	w.decls["Time"] = "/** A moment: RFC 3339, UTC, six decimals. */\nexport type Time = string;\n"
	for _, v := range roots {
		w.typeOf(reflect.TypeOf(v))
	}
	w.typeOf(reflect.TypeFor[chat.Code]())
	kinds := chat.Kinds()
	names := slices.Sorted(maps.Keys(kinds))
	for _, name := range names {
		t := reflect.TypeOf(kinds[name])
		w.typeOf(t)
		w.shape(name, t)
	}

	var b bytes.Buffer
	b.WriteString("// Written by `go run ./web/gen` from the Go vocabulary. Do not edit.\n")
	for _, name := range slices.Sorted(maps.Keys(w.decls)) {
		b.WriteString("\n" + w.decls[name])
	}
	b.WriteString("\n/** The payload of each type of event. */\nexport interface Payloads {\n")
	for _, name := range names {
		fmt.Fprintf(&b, "  %q: %s;\n", name, reflect.TypeOf(kinds[name]).Name())
	}
	b.WriteString("}\n\n" + envelope)
	b.WriteString(shapesDoc + "export const shapes: Record<string, string> = {\n")
	for _, name := range slices.Sorted(maps.Keys(w.shapes)) {
		fmt.Fprintf(&b, "  %q: %q,\n", name, w.shapes[name])
	}
	b.WriteString("};\n")
	return b.Bytes(), nil
}

// envelope is written by hand, as chat.Event writes its JSON by hand; a test
// compares its fields with that.
const envelope = `/** An event as it is stored in the log. */
export interface Envelope<T extends string, P> {
  session_id: string;
  /** Assigned by the log; 1 is the first, there are no gaps. */
  sequence: number;
  timestamp: Time;
  type: T;
  id?: string;
  /** The turn it belongs to, if any. */
  turn_id?: string;
  /** Absent on the main line. */
  workstream_id?: string;
  actor?: Actor;
  parent_id?: string;
  /** The sender's idempotency key. */
  client_id?: string;
  /** The dialect it was sent in; absent for the native one and for the server itself. */
  via?: string;
  /** Hash over the stored bytes of the event before it. */
  prev?: string;
  payload: P;
}

export type KnownType = keyof Payloads;
export type EventOf<T extends KnownType> = { [K in T]: Envelope<K, Payloads[K]> }[T];
/** An event of a type that this version knows. */
export type KnownEvent = EventOf<KnownType>;
/**
 * An event of a type that this version does not know; it is kept and passed on. The question mark exists in the static type
 * only, to separate it from the known ones.
 */
export type UnknownEvent = Envelope<` + "`?${string}`" + `, unknown>;
/** An event of a session. Comparing its type with a known one narrows the type of its payload. */
export type Event = KnownEvent | UnknownEvent;
/** A request to append an event. The same client_id again returns the first event. */
export interface Draft<T extends string = string> {
  type: T;
  payload?: T extends KnownType ? Payloads[T] : unknown;
  client_id?: string;
  workstream_id?: string;
  parent_id?: string;
  turn_id?: string;
  attempt?: number;
}
`

// nameOf is a type's name in TypeScript.
func nameOf(t reflect.Type) string {
	if n, ok := renamed[t.String()]; ok {
		return n
	}
	return t.Name()
}

// typeOf returns the TypeScript form of a type and declares what it refers to.
func (w *writer) typeOf(t reflect.Type) string {
	switch t {
	case typeRaw:
		return "unknown"
	case typeAt:
		return "Time"
	case typeCursor:
		return "string"
	case typeInfo:
		return "Record<string, unknown>"
	case typeEvent:
		return "Event"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return w.typeOf(t.Elem())
	case reflect.String:
		return w.text(t)
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return "number"
	case reflect.Slice:
		return w.typeOf(t.Elem()) + "[]"
	case reflect.Map:
		return "Record<string, " + w.typeOf(t.Elem()) + ">"
	case reflect.Struct:
		w.structure(t)
		return nameOf(t)
	}
	panic("no TypeScript form for " + t.String())
}

// text is a string, or one of the words that the package lists for its type.
func (w *writer) text(t reflect.Type) string {
	src := w.src[pkg(t)]
	words := src.values[t.Name()]
	if t.Name() == "string" || len(words) == 0 {
		return "string"
	}
	name := nameOf(t)
	if _, known := w.decls[name]; !known {
		quoted := make([]string, len(words))
		for i, word := range words {
			quoted[i] = fmt.Sprintf("%q", word)
		}
		w.decls[name] = doc(src.docs[t.Name()], "") + "export type " + name + " = " + strings.Join(quoted, " | ") + ";\n"
	}
	return name
}

func (w *writer) structure(t reflect.Type) {
	name := nameOf(t)
	if _, known := w.decls[name]; known {
		return
	}
	w.decls[name] = "" // a type may refer to itself
	src := w.src[pkg(t)]
	if t == typeItem {
		w.decls[name] = w.item(t, src)
		return
	}
	w.decls[name] = doc(src.docs[t.Name()], "") + "export interface " + name + " {\n" + w.members(t, func(string) bool { return true }) + "}\n"
}

// members writes the fields that keep accepts.
func (w *writer) members(t reflect.Type, keep func(tag string) bool) string {
	var b strings.Builder
	for f, owner := range fields(t) {
		tag, optional := tagOf(f)
		if tag == "" || !keep(tag) {
			continue
		}
		mark := ""
		if optional {
			mark = "?"
		}
		b.WriteString(doc(w.src[pkg(owner)].fields[owner.Name()][f.Name], "  "))
		fmt.Fprintf(&b, "  %s%s: %s;\n", tag, mark, w.typeOf(f.Type))
	}
	return b.String()
}

// item writes Item as a union by kind, so that a check of the kind narrows the type to its part.
func (w *writer) item(t reflect.Type, src source) string {
	parts := map[string]string{} // kind → its field
	words := src.values["ItemKind"]
	for f := range fields(t) {
		if tag, _ := tagOf(f); slices.Contains(words, tag) {
			parts[tag] = w.typeOf(f.Type)
		}
	}
	isPart := func(tag string) bool { return parts[tag] != "" }
	var b strings.Builder
	b.WriteString("/** What all items have. */\nexport interface ItemBase {\n")
	b.WriteString(w.members(t, func(tag string) bool { return tag != "kind" && !isPart(tag) }))
	b.WriteString("}\n\n/** The part that an item of each kind has. */\nexport interface ItemParts {\n")
	for _, word := range words {
		tag := word
		if !isPart(tag) {
			tag = "text" // thinking is stored in text
		}
		fmt.Fprintf(&b, "  %s: { %s: %s };\n", word, tag, parts[tag])
	}
	w.text(reflect.TypeFor[chat.ItemKind]())
	b.WriteString("}\n\nexport type ItemOf<K extends ItemKind> = { [P in K]: ItemBase & { kind: P } & ItemParts[P] }[K];\n")
	b.WriteString(doc(src.docs["Item"], "") + "export type Item = ItemOf<ItemKind>;\n")
	return b.String()
}

const shapesDoc = `
/**
 * How payloads are decoded: the fields of each event type. A field without a mark is a text, a number or a boolean that is
 * left out when it is empty. With ! it is written when it is empty too (!0 a number, !- a boolean, ![] a list), with * when it
 * was given. ~ is any value, @ a time, : another shape, [ a list of another shape.
 */
`

// shape describes how a payload is read; see shapesDoc.
func (w *writer) shape(name string, t reflect.Type) string {
	if _, known := w.shapes[name]; known {
		return name
	}
	w.shapes[name] = ""
	var list []string
	for f := range fields(t) {
		if tag, optional := tagOf(f); tag != "" {
			list = append(list, tag+w.mark(f.Type, optional))
		}
	}
	w.shapes[name] = strings.Join(list, " ")
	return name
}

func (w *writer) mark(t reflect.Type, optional bool) string {
	given := ""
	if t.Kind() == reflect.Pointer {
		t, given = t.Elem(), "*"
	}
	empty := ""
	switch {
	case t == typeRaw, t == typeInfo:
		return "~"
	case t == typeAt:
		return "@"
	case t.Kind() == reflect.Struct:
		return ":" + w.shape(t.Name(), t) + given
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		if !optional {
			given = "![]"
		}
		return "[" + w.shape(t.Elem().Name(), t.Elem()) + given
	case optional:
		return given
	case t.Kind() == reflect.Slice:
		empty = "[]"
	case t.Kind() == reflect.Bool:
		empty = "-"
	case t.Kind() != reflect.String:
		empty = "0"
	}
	return "!" + empty
}

// fields yields the exported fields of a struct with the struct that declares
// them; those of embedded structs are included.
func fields(t reflect.Type) func(yield func(f reflect.StructField, owner reflect.Type) bool) {
	return func(yield func(reflect.StructField, reflect.Type) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Anonymous && f.Tag.Get("json") == "" {
				for g, owner := range fields(f.Type) {
					if !yield(g, owner) {
						return
					}
				}
				continue
			}
			if f.IsExported() && !yield(f, t) {
				return
			}
		}
	}
}

// tagOf returns a field's name in JSON, "" when it has none.
func tagOf(f reflect.StructField) (tag string, optional bool) {
	tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if tag == "-" {
		tag = ""
	}
	return tag, strings.Contains(options, "omit")
}

func pkg(t reflect.Type) string {
	name, _, _ := strings.Cut(t.String(), ".")
	return name
}

func doc(text, indent string) string {
	if text == "" {
		return ""
	}
	return indent + "/** " + strings.ReplaceAll(text, "*/", "* /") + " */\n"
}
