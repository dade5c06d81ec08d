package record

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// numbers is the list of the numbers in a log.
type numbers struct {
	workspace string
	list      []int
}

func (n *numbers) Apply(e *chat.Event) {
	var v int
	if e.Type == "test.number" && json.Unmarshal(e.Payload, &v) == nil {
		n.list = append(n.list, v)
	}
}

func numberLogs(s *store) *Logs[*numbers] {
	return &Logs[*numbers]{Sessions: s, New: func(workspace string) *numbers { return &numbers{workspace: workspace} }}
}

var one = InWorkspace("sys-test", "Numbers", chat.DefaultWorkspace)

func listOf(t *testing.T, ls *Logs[*numbers], name Name) (list []int) {
	t.Helper()
	err := ls.View(t.Context(), name, func(n *numbers) error {
		list = slices.Clone(n.list)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func add(t *testing.T, ls *Logs[*numbers], name Name, number int, key string) (id chat.EventID, err error) {
	err = ls.Change(t.Context(), name, func(tx *Tx[*numbers]) error {
		e, err := tx.Append(t.Context(), "test.number", number, key)
		id = e.ID
		return err
	})
	return id, err
}

// A check inside a change holds until its event is stored, with any number of writers and readers.
func TestChangesOfALogDoNotOverlap(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	ls := numberLogs(s)
	ls.Max = 1
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			err := ls.Change(t.Context(), one, func(tx *Tx[*numbers]) error {
				n := len(tx.Value.list)
				_, err := tx.Append(t.Context(), "test.number", n, "")
				if len(tx.Value.list) != n+1 {
					t.Error("the value does not have the event that was appended")
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for i, n := range listOf(t, ls, one) {
				if i != n {
					t.Errorf("number %d is %d", i, n)
				}
			}
			listOf(t, ls, InWorkspace("sys-test", "Numbers", "other"))
		})
	}
	wg.Wait()
	for i, n := range listOf(t, ls, one) {
		if i != n {
			t.Errorf("number %d is %d", i, n)
		}
	}
	if got := listOf(t, numberLogs(s.restart()), one); len(got) != 40 {
		t.Errorf("after a restart: %v", got)
	}
}

func TestAKeyIsUsedOnce(t *testing.T) {
	t.Parallel()
	ls := numberLogs(openStore(t))
	first, err := add(t, ls, one, 1, "k")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := add(t, ls, one, 1, "k"); err != nil || again != first {
		t.Errorf("the same again: %v %v", again, err)
	}
	if _, err := add(t, ls, one, 2, "k"); chat.CodeOf(err) != chat.Conflict {
		t.Errorf("another payload: %v", err)
	}
	if got := listOf(t, ls, one); !slices.Equal(got, []int{1}) {
		t.Error(got)
	}
}

// The first change takes three writes: an append that finds no session, the creation, the append. Whichever is cut off, or
// done with its answer lost, the next use sees what is stored, and the change can be repeated with its key.
func TestACutChangeOfALogIsRepeated(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		for writes := range int64(3) {
			t.Run(fmt.Sprintf("lost=%t after %d writes", lost, writes), func(t *testing.T) {
				s := openStore(t)
				ls := numberLogs(s)
				stored := 0
				if s.left.Store(writes); lost {
					s.left.Store(writes + 1)
					s.lost.Store(true)
					stored = int(writes) / 2
				}
				_, err := add(t, ls, one, 7, "k")
				s.left.Store(1 << 40)
				if err == nil {
					t.Fatal("nothing was cut")
				}
				if got := listOf(t, ls, one); len(got) != stored {
					t.Errorf("after the cut: %v", got)
				}
				if _, err := add(t, ls, one, 7, "k"); err != nil {
					t.Error(err)
				}
				if got := listOf(t, numberLogs(s.restart()), one); !slices.Equal(got, []int{7}) {
					t.Error(got)
				}
			})
		}
	}
}

func TestWorkspacesHaveTheirOwnLog(t *testing.T) {
	t.Parallel()
	ls := numberLogs(openStore(t))
	other := InWorkspace("sys-test", "Numbers", "other")
	for i, name := range []Name{one, other} {
		if _, err := add(t, ls, name, i, ""); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := listOf(t, ls, one), listOf(t, ls, other); !slices.Equal(a, []int{0}) || !slices.Equal(b, []int{1}) {
		t.Error(a, b)
	}
	if other.ID != "sys-test.other" || one.ID != "sys-test" {
		t.Error(one, other)
	}
}

func TestUnusedLogsLeaveMemory(t *testing.T) {
	t.Parallel()
	ls := numberLogs(openStore(t))
	ls.Max = 3
	name := func(i int) Name { return InWorkspace("sys-test", "Numbers", fmt.Sprint("w", i)) }
	for i := range 20 {
		if got := listOf(t, ls, name(i)); len(got) != 0 || ls.Len() > 3 {
			t.Fatal("a log that was never written stays in memory", got, ls.Len())
		}
		if _, err := add(t, ls, name(i), i, ""); err != nil {
			t.Fatal(err)
		}
	}
	if n := ls.Len(); n != 3 {
		t.Errorf("%d logs are in memory", n)
	}
	for i := range 20 {
		if got := listOf(t, ls, name(i)); !slices.Equal(got, []int{i}) {
			t.Errorf("log %d: %v", i, got)
		}
	}
}

// Two nodes have the same log, but no lock in common: a change is decided again when the other node was first.
func TestChangesOfTwoNodesDoNotOverlap(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	nodes := []*Logs[*numbers]{numberLogs(s), numberLogs(s)}
	var wg sync.WaitGroup
	for _, ls := range nodes {
		wg.Go(func() {
			for range 30 {
				err := ls.Change(t.Context(), one, func(tx *Tx[*numbers]) error {
					_, err := tx.Append(t.Context(), "test.number", len(tx.Value.list), "")
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, ls := range nodes {
		list := listOf(t, ls, one)
		for i, n := range list {
			if i != n {
				t.Fatalf("number %d is %d", i, n)
			}
		}
		if len(list) != 60 {
			t.Errorf("%d numbers", len(list))
		}
	}
}
