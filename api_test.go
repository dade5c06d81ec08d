package parley_test

import (
	"go/types"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// The public packages show no type of an internal package: a user could neither name nor make it.
func TestPublicPackagesShowNoInternalTypes(t *testing.T) {
	public, err := packages.Load(
		&packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedExportFile},
		"./chat", "./client", "./agent")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range public {
		for _, err := range p.Errors {
			t.Fatal(err)
		}
		scope := p.Types.Scope()
		for _, name := range scope.Names() {
			if o := scope.Lookup(name); o.Exported() {
				w := walker{t: t, where: p.Name + "." + name, seen: map[types.Type]bool{}}
				w.walk(o.Type())
			}
		}
	}
}

// walker looks at all types that a user reaches from a declaration.
type walker struct {
	t     *testing.T
	where string
	seen  map[types.Type]bool
}

func (w *walker) walk(typ types.Type) {
	typ = types.Unalias(typ)
	if w.seen[typ] {
		return
	}
	w.seen[typ] = true
	switch typ := typ.(type) {
	case *types.Named:
		w.named(typ)
	case *types.Struct:
		for i := range typ.NumFields() {
			if f := typ.Field(i); f.Exported() {
				w.walk(f.Type())
			}
		}
	case *types.Interface:
		for i := range typ.NumMethods() {
			if m := typ.Method(i); m.Exported() {
				w.walk(m.Type())
			}
		}
	case *types.Signature:
		w.tuple(typ.Params())
		w.tuple(typ.Results())
	case *types.Map:
		w.walk(typ.Key())
		w.walk(typ.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		w.walk(typ.Elem())
	}
}

func (w *walker) named(typ *types.Named) {
	pkg := typ.Obj().Pkg()
	if pkg == nil || !strings.HasPrefix(pkg.Path(), module) {
		return
	}
	if strings.Contains(pkg.Path(), "/internal/") {
		w.t.Errorf("%s shows %s", w.where, typ)
		return
	}
	w.walk(typ.Underlying())
	for i := range typ.NumMethods() {
		if m := typ.Method(i); m.Exported() {
			w.walk(m.Type())
		}
	}
}

func (w *walker) tuple(vars *types.Tuple) {
	for i := range vars.Len() {
		w.walk(vars.At(i).Type())
	}
}
