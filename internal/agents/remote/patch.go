package remote

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/internal/json"
)

// operation is one step of a JSON Patch (RFC 6902).
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from"`
	Value json.RawMessage `json:"value"`
}

var errPatch = errors.New("the patch does not fit the state")

// patch applies a JSON Patch. The document is returned; what was given is not
// to be used any more.
func patch(doc any, ops []operation) (any, error) {
	for _, op := range ops {
		var v any
		var err error
		switch op.Op {
		case "add", "replace", "test":
			if v, err = decode(op.Value); err != nil {
				return nil, err
			}
		case "move", "copy":
			if v, err = lookUp(doc, pointer(op.From)); err != nil {
				return nil, err
			}
			if op.Op == "copy" {
				b, _ := json.Marshal(v)
				v, _ = decode(b)
			} else if strings.HasPrefix(op.Path+"/", op.From+"/") && op.Path != op.From {
				return nil, errPatch
			} else if doc, err = change(doc, pointer(op.From), nil, "remove"); err != nil {
				return nil, err
			}
		case "remove":
		default:
			return nil, errPatch
		}
		switch op.Op {
		case "test":
			have, err := lookUp(doc, pointer(op.Path))
			if err != nil {
				return nil, err
			}
			a, _ := json.Marshal(have)
			b, _ := json.Marshal(v)
			if !bytes.Equal(a, b) {
				return nil, errPatch
			}
			continue
		case "move", "copy":
			op.Op = "add"
		}
		if doc, err = change(doc, pointer(op.Path), v, op.Op); err != nil {
			return nil, err
		}
	}
	return doc, nil
}

// decode reads JSON and keeps numbers as they are written.
func decode(b []byte) (v any, err error) {
	if len(b) == 0 {
		return nil, errPatch
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return v, d.Decode(&v)
}

func pointer(p string) []string {
	if p == "" {
		return nil
	}
	steps := strings.Split(strings.TrimPrefix(p, "/"), "/")
	for i, s := range steps {
		steps[i] = strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
	}
	return steps
}

func lookUp(doc any, path []string) (any, error) {
	for _, step := range path {
		switch d := doc.(type) {
		case map[string]any:
			v, ok := d[step]
			if !ok {
				return nil, errPatch
			}
			doc = v
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(d) {
				return nil, errPatch
			}
			doc = d[i]
		default:
			return nil, errPatch
		}
	}
	return doc, nil
}

// change adds, replaces or removes what a path leads to.
func change(doc any, path []string, v any, op string) (any, error) {
	if len(path) == 0 {
		return v, nil
	}
	step := path[0]
	switch d := doc.(type) {
	case map[string]any:
		old, there := d[step]
		if len(path) > 1 {
			if !there {
				return nil, errPatch
			}
			inner, err := change(old, path[1:], v, op)
			d[step] = inner
			return d, err
		}
		switch {
		case op != "add" && !there:
			return nil, errPatch
		case op == "remove":
			delete(d, step)
		default:
			d[step] = v
		}
		return d, nil
	case []any:
		i, err := strconv.Atoi(step)
		if step == "-" && op == "add" && len(path) == 1 {
			i, err = len(d), nil
		}
		if err != nil || i < 0 || i > len(d) || i == len(d) && (op != "add" || len(path) > 1) {
			return nil, errPatch
		}
		switch {
		case len(path) > 1:
			d[i], err = change(d[i], path[1:], v, op)
			return d, err
		case op == "add":
			return slices.Insert(d, i, v), nil
		case op == "remove":
			return slices.Delete(d, i, i+1), nil
		}
		d[i] = v
		return d, nil
	}
	return nil, errPatch
}
