package journal

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

func ids(page chat.SessionPage) (list []chat.SessionID) {
	for _, s := range page.Sessions {
		list = append(list, s.ID)
	}
	return list
}

func wantIDs(t testing.TB, got []chat.SessionID, want ...chat.SessionID) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// pages walks a list to its end.
func pages(t testing.TB, s *Journal, f core.Filter) (all []chat.SessionID) {
	t.Helper()
	for range 10_000 {
		p := must(s.List(ctx, f))(t)
		if f.Limit > 0 && len(p.Sessions) > f.Limit {
			t.Fatalf("a page of %d, limit %d", len(p.Sessions), f.Limit)
		}
		all = append(all, ids(p)...)
		if f.Cursor = p.Next; f.Cursor == "" {
			return all
		}
	}
	t.Fatal("the list does not end")
	return nil
}

func TestListOrder(t *testing.T) { onEachStore(t, testListOrder) }

func testListOrder(t *testing.T, s *Journal) {
	if p := must(s.List(ctx, core.Filter{}))(t); p.Sessions == nil || len(p.Sessions) != 0 || p.Next != "" {
		t.Fatalf("an empty store lists %+v", p)
	}
	// Distances of one step to many seconds, and two at the same moment.
	at := map[chat.SessionID]chat.At{
		"s-a": 0, "s-b": 16, "s-c": 16, "s-d": 900_000, "s-e": 1_100_000, "s-f": 1_100_016, "s-g": 60_000_000, "s-h": 0,
	}
	authors := map[chat.SessionID]*author{}
	for id, d := range at {
		a := must(newAuthor(s, id))(t)
		a.Clock = epoch + d
		authors[id] = a.append(t, chat.SessionStarted{Agent: chat.NoAgent})
	}
	order := func() []chat.SessionID {
		var list []chat.SessionID
		for id := range authors {
			list = append(list, id)
		}
		slices.SortFunc(list, func(a, b chat.SessionID) int {
			return cmp.Or(cmp.Compare(authors[b].State.LastAt, authors[a].State.LastAt), cmp.Compare(a, b))
		})
		return list
	}
	wantIDs(t, order(), "s-g", "s-f", "s-e", "s-d", "s-b", "s-c", "s-a", "s-h")
	for limit := range 10 {
		wantIDs(t, pages(t, s, core.Filter{Limit: limit}), order()...)
	}
	// Appending moves a session, by little and by much.
	authors["s-a"].Clock = epoch + 17
	authors["s-a"].append(t, message("a bit later"))
	authors["s-h"].Clock = epoch + 3_600_000_000
	authors["s-h"].append(t, message("much later"))
	for limit := range 10 {
		wantIDs(t, pages(t, s, core.Filter{Limit: limit}), order()...)
	}
	p := must(s.List(ctx, core.Filter{Limit: 1}))(t)
	if got := p.Sessions[0]; got.ID != "s-h" || got.Last != 2 || got.UpdatedAt != epoch+3_600_000_000 {
		t.Fatalf("%+v", got)
	}
}

// A session that moves to the front while a page is read is on it.
func TestListIncludesSessionsThatChangeMeanwhile(t *testing.T) {
	onEachStore(t, testListIncludesSessionsThatChangeMeanwhile)
}

func testListIncludesSessionsThatChangeMeanwhile(t *testing.T, s *Journal) {
	const n = 40
	var busy *author
	for i := range n {
		a := must(newAuthor(s, chat.SessionID(fmt.Sprintf("s-%02d", i))))(t)
		a.Clock = epoch + chat.At(i)*2_000_000
		a.append(t, chat.SessionStarted{Agent: chat.NoAgent})
		if i == 0 {
			busy = a // the last of the list
		}
	}
	ended := make(chan error, 1)
	go func() {
		for second := chat.At(2 * n); second < 2*n+400; second += 2 {
			busy.Clock = epoch + second*1_000_000
			if err := busy.try(chat.UserMessage{Text: "again"}); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	for {
		if got := ids(must(s.List(ctx, core.Filter{}))(t)); len(got) != n {
			t.Errorf("%d of %d sessions are listed", len(got), n)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}

func TestListFilters(t *testing.T) { onEachStore(t, testListFilters) }

func testListFilters(t *testing.T, s *Journal) {
	bob := chat.Actor{Kind: chat.User, ID: "bob"}
	start := func(id chat.SessionID, d chat.At, b chat.SessionStarted) *author {
		a := must(newAuthor(s, id))(t)
		a.Clock = epoch + d*2_000_000
		return a.append(t, b)
	}
	a := start("s-1", 1, chat.SessionStarted{Agent: chat.NoAgent, Title: "Quarterly Pricing"})
	start("s-2", 2, chat.SessionStarted{Agent: "demo", Title: "pricing of Apples"})
	start("s-3", 3, chat.SessionStarted{Agent: "demo", Workspace: "other"})
	start("s-4", 4, chat.SessionStarted{Agent: chat.NoAgent, Members: []chat.Member{{Actor: bob, Role: chat.Viewer}}})
	list := func(f core.Filter) []chat.SessionID { t.Helper(); return pages(t, s, f) }
	ann := a.Actor
	wantIDs(t, list(core.Filter{}), "s-4", "s-2", "s-1")
	wantIDs(t, list(core.Filter{Workspace: "other"}), "s-3")
	wantIDs(t, list(core.Filter{Actor: &ann}), "s-4", "s-2", "s-1")
	wantIDs(t, list(core.Filter{Actor: &bob}), "s-4")
	wantIDs(t, list(core.Filter{Actor: &bob, Workspace: "other"}))
	wantIDs(t, list(core.Filter{Agent: "demo"}), "s-2")
	wantIDs(t, list(core.Filter{Query: "PRICING"}), "s-2", "s-1")
	wantIDs(t, list(core.Filter{Query: "pricing quarterly"}), "s-1")
	wantIDs(t, list(core.Filter{Query: "s-4"}), "s-4")
	wantIDs(t, list(core.Filter{Status: chat.Idle}), "s-4", "s-2", "s-1")
	wantIDs(t, list(core.Filter{Status: chat.Completed}))
	wantIDs(t, list(core.Filter{User: "bob"}), "s-4")
	wantIDs(t, list(core.Filter{User: ann.ID, Actor: &bob}), "s-4")
	wantIDs(t, list(core.Filter{User: "eve"}))
	second := func(n float64) chat.At { return epoch + chat.At(n*1_000_000) }
	wantIDs(t, list(core.Filter{Since: second(4)}), "s-4", "s-2")
	wantIDs(t, list(core.Filter{Since: second(4) + 1}), "s-4")
	wantIDs(t, list(core.Filter{Until: second(8)}), "s-2", "s-1")
	wantIDs(t, list(core.Filter{Until: second(8) + 1}), "s-4", "s-2", "s-1")
	wantIDs(t, list(core.Filter{Since: second(3), Until: second(5), Limit: 1}), "s-2")
	wantIDs(t, list(core.Filter{Until: second(8), Limit: 1}), "s-2", "s-1")
	// Members and status change.
	members, title := []chat.Member{{Actor: bob, Role: chat.Answerer}}, "renamed"
	a.append(t, chat.SessionUpdated{Members: &members, Title: &title})
	wantIDs(t, list(core.Filter{Actor: &bob}), "s-4", "s-1")
	wantIDs(t, list(core.Filter{Query: "quarterly"}))
	a.append(t, chat.SessionCompleted{})
	wantIDs(t, list(core.Filter{Status: chat.Completed}), "s-1")
	members = []chat.Member{}
	a.Clock += 10_000_000
	a.append(t, chat.SessionUpdated{Members: &members})
	wantIDs(t, list(core.Filter{Actor: &bob}), "s-4")
	wantIDs(t, list(core.Filter{Actor: &ann}), "s-1", "s-4", "s-2")
	yes, no := true, false
	a.append(t, chat.SessionUpdated{Archived: &yes})
	wantIDs(t, list(core.Filter{Archived: &yes}), "s-1")
	wantIDs(t, list(core.Filter{Archived: &no}), "s-4", "s-2")
	a.append(t, chat.SessionUpdated{Archived: &no})
	wantIDs(t, list(core.Filter{Archived: &yes}))
}

func TestListCursors(t *testing.T) { onEachStore(t, testListCursors) }

func testListCursors(t *testing.T, s *Journal) {
	for i := range 20 {
		a := must(newAuthor(s, chat.SessionID(fmt.Sprintf("s-%02d", i))))(t)
		a.Clock = epoch + chat.At(i)*300_000
		a.append(t, chat.SessionStarted{Agent: chat.NoAgent})
	}
	for _, bad := range []string{"x", "====", "AAAA", "AQ", "AQAAAAAAAAAAIA", "ünïcode", "AQAAAAAAAAAA"} {
		wantCode(t, second(s.List(ctx, core.Filter{Cursor: bad})), chat.Invalid)
	}
	// A session that becomes active and one that is erased between two
	// pages damage no other.
	first := must(s.List(ctx, core.Filter{Limit: 8}))(t)
	resume(t, s, "s-05").later(t)
	resume(t, s, "s-15").later(t)
	if _, err := eraseNow(s, "s-12"); err != nil { // the cursor's own session
		t.Fatal(err)
	}
	rest := pages(t, s, core.Filter{Limit: 3, Cursor: first.Next})
	got := append(ids(first), rest...)
	var want []chat.SessionID
	for i := 19; i >= 0; i-- {
		if i != 5 {
			want = append(want, chat.SessionID(fmt.Sprintf("s-%02d", i)))
		}
	}
	wantIDs(t, got, want...)
}

func (a *author) later(t testing.TB) {
	a.Clock = epoch + 1_000_000_000
	a.append(t, message("later"))
}

func TestPromptsAndDeadlines(t *testing.T) { onEachStore(t, testPromptsAndDeadlines) }

func testPromptsAndDeadlines(t *testing.T, s *Journal) {
	a := begin(t, s, "s-1")
	b := begin(t, s, "s-2")
	ask := func(id string, deadline chat.At) chat.Body {
		return chat.AgentInputRequest{RequestID: id, InputType: chat.InputText, Text: "?", Deadline: deadline}
	}
	a.append(t, ask("r-1", epoch+300), ask("r-2", 0))
	b.append(t, ask("r-1", epoch+100))
	a.append(t, chat.AgentApprovalRequest{RequestID: "r-3", Calls: []chat.ApprovalCall{{CallID: "c", Tool: "t"}}, Deadline: epoch + 200})
	a.append(t, chat.AgentInputRequest{RequestID: "note", InputType: chat.InputNotification, Text: "!", Deadline: epoch + 1})
	due := func() (list []string) {
		for d, err := range s.Deadlines(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, fmt.Sprintf("%d %s %s", d.At-epoch, d.Session, d.RequestID))
		}
		return list
	}
	want := func(list ...string) {
		t.Helper()
		if got := due(); !slices.Equal(got, list) {
			t.Fatalf("deadlines %q, want %q", got, list)
		}
	}
	want("100 s-2 r-1", "200 s-1 r-3", "300 s-1 r-1")
	ref, ok, err := s.Prompt(ctx, "s-1", "r-1")
	if err != nil || !ok || ref != (core.PromptRef{Asked: 2}) {
		t.Fatal(ref, ok, err)
	}
	a.append(t, chat.UserInputResponse{RequestID: "r-1", Text: "!"})
	a.append(t, chat.PromptClosed{RequestID: "r-3", Reason: chat.Expired})
	a.append(t, chat.UserInputResponse{RequestID: "r-1", Text: "too late"}, chat.UserInputResponse{RequestID: "never asked", Text: "?"})
	want("100 s-2 r-1")
	if ref, _, _ := s.Prompt(ctx, "s-1", "r-1"); ref != (core.PromptRef{Asked: 2, Ended: 6}) {
		t.Fatalf("%+v", ref)
	}
	if ref, _, _ := s.Prompt(ctx, "s-1", "r-2"); ref != (core.PromptRef{Asked: 3}) {
		t.Fatalf("%+v", ref)
	}
	for _, none := range []string{"never asked", "note", ""} {
		if _, ok, err := s.Prompt(ctx, "s-1", none); ok || err != nil {
			t.Fatal(none, ok, err)
		}
	}
	// Asked and ended in one commit.
	a.append(t, ask("r-9", epoch+50), chat.PromptClosed{RequestID: "r-9", Reason: chat.Withdrawn})
	want("100 s-2 r-1")
	if ref, ok, _ := s.Prompt(ctx, "s-1", "r-9"); !ok || ref.Ended != ref.Asked+1 {
		t.Fatalf("%+v", ref)
	}
	if _, err := eraseNow(s, "s-2"); err != nil {
		t.Fatal(err)
	}
	want()
}

func TestWorkingSessions(t *testing.T) { onEachStore(t, testWorkingSessions) }

func testWorkingSessions(t *testing.T, s *Journal) {
	busy := func(want ...chat.SessionID) {
		t.Helper()
		var got []chat.SessionID
		for id, err := range s.Working(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, id)
		}
		slices.Sort(got)
		wantIDs(t, got, want...)
	}
	a := begin(t, s, "s-1", chat.SessionStarted{Agent: "demo"})
	b := begin(t, s, "s-2", chat.SessionStarted{Agent: "demo"})
	busy()
	a.append(t, message("hello"))
	busy("s-1")
	b.append(t, message("hello"))
	busy("s-1", "s-2")
	a.append(t, chat.TurnStarted{TurnID: "t-1", Trigger: 2, Agent: "demo"})
	busy("s-1", "s-2")
	a.append(t, chat.TurnCompleted{TurnID: "t-1", Outcome: chat.Done})
	busy("s-2")
	if _, err := eraseNow(s, "s-2"); err != nil {
		t.Fatal(err)
	}
	busy()
}

func TestBlockEndsAreStored(t *testing.T) { onEachStore(t, testBlockEndsAreStored) }

func testBlockEndsAreStored(t *testing.T, s *Journal) {
	a := begin(t, s, "s-1")
	c := must(a.build(chat.AgentText{Block: "b1", Text: "hello world"}))(t)
	want := []chat.End{{Bytes: 5, At: epoch + 5}, {Bytes: 6, At: epoch + 30}, {Bytes: 11, At: epoch + 1_000_000}}
	c.Ends = []core.BlockEnds{{Seq: 2, Ends: want}}
	if err := s.Commit(ctx, c); err != nil {
		t.Fatal(err)
	}
	if got := must(s.Ends(ctx, "s-1", 2))(t); !slices.Equal(got, want) {
		t.Fatalf("%v", got)
	}
	if got := must(s.Ends(ctx, "s-1", 1))(t); got != nil {
		t.Fatalf("%v", got)
	}
}

func TestAliases(t *testing.T) { onEachStore(t, testAliases) }

func testAliases(t *testing.T, s *Journal) {
	if id, ok, err := s.Alias(ctx, "default", "user:ann", "thread 1"); ok || err != nil {
		t.Fatal(id, ok, err)
	}
	if id := must(s.SetAlias(ctx, "default", "user:ann", "thread 1", "s-1"))(t); id != "s-1" {
		t.Fatal(id)
	}
	if id := must(s.SetAlias(ctx, "default", "user:ann", "thread 1", "s-2"))(t); id != "s-1" {
		t.Fatalf("the second %s won", id)
	}
	for _, other := range [][3]string{{"other", "user:ann", "thread 1"}, {"default", "user:bob", "thread 1"}, {"default", "user:ann", "thread 2"}} {
		if id, ok, err := s.Alias(ctx, other[0], other[1], other[2]); ok || err != nil {
			t.Fatal(other, id, ok, err)
		}
	}
	begin(t, s, "s-1")
	if _, err := eraseNow(s, "s-1"); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Alias(ctx, "default", "user:ann", "thread 1")
	wantCode(t, err, chat.Gone)
	wantCode(t, second(s.SetAlias(ctx, "default", "user:ann", "thread 1", "s-3")), chat.Gone)
	wantCode(t, second(s.SetAlias(ctx, "default", "user:ann", "thread 9", "s-1")), chat.Gone)

	// A replaced alias belongs to the new session only.
	wantCode(t, s.ReplaceAlias(ctx, "default", "user:ann", "thread 1", "s-1"), chat.Gone)
	for _, id := range []chat.SessionID{"s-4", "s-5", "s-5"} {
		if err := s.ReplaceAlias(ctx, "default", "user:ann", "thread 1", id); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := s.Alias(ctx, "default", "user:ann", "thread 1"); got != id || !ok || err != nil {
			t.Fatal(got, ok, err)
		}
	}
	begin(t, s, "s-4")
	begin(t, s, "s-5")
	if _, err := eraseNow(s, "s-4"); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := s.Alias(ctx, "default", "user:ann", "thread 1"); got != "s-5" || !ok || err != nil {
		t.Fatal(got, ok, err)
	}
	if _, err := eraseNow(s, "s-5"); err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Alias(ctx, "default", "user:ann", "thread 1")
	wantCode(t, err, chat.Gone)
}
