package journal

import (
	"context"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/parley-hq/parley/chat"
)

// callOnce is a context that calls a function at the first call of Err.
type callOnce struct {
	context.Context
	once sync.Once
	do   func()
}

func (m *callOnce) Err() error {
	m.once.Do(m.do)
	return m.Context.Err()
}

// What is erased while the walk is on its way is no damage.
func TestEraseDuringVerifyIsNotDamage(t *testing.T) {
	t.Parallel()
	j := openTest(t, "/data", Options{FS: vfs.NewMem()})
	begin(t, j, "s-1").append(t, message("hello"))
	begin(t, j, "s-2").append(t, message("hello"))
	// The walk begins with the lower number and meets the other one later.
	later := chat.SessionID("s-2")
	one, _, err := j.Number(ctx, "s-1")
	two, _, err2 := j.Number(ctx, "s-2")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if one > two {
		later = "s-1"
	}
	v := &verifier{j: j}
	err = v.orphans(&callOnce{Context: ctx, do: func() {
		if _, err := eraseNow(j, later); err != nil {
			t.Error(err)
		}
	}})
	if err != nil || v.report.Found != 0 {
		t.Fatalf("%+v, %v", v.report, err)
	}
}

// Nor is what an import has brought so far.
func TestImportDuringVerifyIsNotDamage(t *testing.T) {
	t.Parallel()
	from := openTest(t, "/from", Options{FS: vfs.NewMem()})
	ask := func(id string) chat.Body {
		return chat.AgentInputRequest{RequestID: id, InputType: chat.InputText, Text: "?", Deadline: epoch * 2}
	}
	begin(t, from, "s-1").append(t, ask("r1"), ask("r2"))
	facts, _, err := from.Read(ctx, "s-1", chat.Range{})
	if err != nil {
		t.Fatal(err)
	}
	j := openTest(t, "/data", Options{FS: vfs.NewMem()})
	err = j.Import(ctx, "s-1", func(yield func(chat.Fact, error) bool) {
		for _, f := range facts {
			if !yield(f, nil) {
				return
			}
			if report, err := j.Verify(ctx, nil); err != nil || report.Found != 0 {
				t.Errorf("after event %d: %+v, %v", f.Seq, report, err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if report, err := j.Verify(ctx, nil); err != nil || report.Found != 0 || report.Sessions != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}
