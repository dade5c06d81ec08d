package node

import (
	"strings"
	"testing"
)

func TestOnlyEmptyNodesThatHearAllOthersBeginACluster(t *testing.T) {
	peers := []string{"a:1", "b:1", "c:1"}
	empty := func(addr string) Hello { return Hello{Node: "n-" + addr, Addr: addr} }
	in := func(addr, id string) Hello { return Hello{Node: "n-" + addr, Addr: addr, Cluster: id, Whole: true} }
	young := in("b:1", "x")
	young.FromEmpty = true
	copying := in("b:1", "x")
	copying.Whole = false
	damaged := copying
	damaged.Damaged = true
	lost := empty("a:1")
	lost.Cluster = "x"
	for _, c := range []struct {
		name  string
		self  Hello
		heard []Hello
		want  Step
		says  string
	}{
		{"alone", empty("a:1"), nil, Wait, "b:1, c:1"},
		{"two of three", empty("a:1"), []Hello{empty("b:1")}, Wait, "c:1"},
		{"all, the first", empty("a:1"), []Hello{empty("b:1"), empty("c:1")}, Begin, ""},
		{"all, the second", empty("b:1"), []Hello{empty("a:1"), empty("c:1")}, Wait, "a:1"},
		{"two processes at one address", empty("a:1"), []Hello{empty("b:1"), empty("b:1")}, Wait, "c:1"},
		{"a cluster that began empty", empty("a:1"), []Hello{young, empty("c:1")}, Adopt, ""},
		{"a cluster that began with sessions", empty("a:1"), []Hello{in("b:1", "x"), empty("c:1")}, Copy, ""},
		{"a cluster without a complete store", empty("a:1"), []Hello{copying, empty("c:1")}, Wait, "complete"},
		{"two clusters", empty("a:1"), []Hello{in("b:1", "x"), in("c:1", "y")}, Wait, "x and y"},
		{"a lost store, the others are empty", lost, []Hello{empty("b:1"), empty("c:1")}, Wait, "complete"},
		{"a lost store, another cluster", lost, []Hello{in("b:1", "y"), in("c:1", "y")}, Wait, "complete"},
		{"a lost store in a cluster that began empty", lost, []Hello{young}, Copy, ""},
		{"a lost store", lost, []Hello{in("b:1", "x"), in("c:1", "y")}, Copy, ""},
	} {
		got := MakePlan(c.self, c.heard, peers)
		if got.Step != c.want || !strings.Contains(got.Why, c.says) {
			t.Errorf("%s: %+v", c.name, got)
		}
		if got.Step == Copy && (got.Cluster != "x" || got.From[0] != "n-b:1") {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestANodeRefusesToWorkBesideAMajorityOfAnotherCluster(t *testing.T) {
	self := Hello{Node: "n1", Addr: "a:1", Cluster: "x"}
	same, other, third := Hello{Node: "n2", Addr: "b:1", Cluster: "x"}, Hello{Node: "n3", Addr: "c:1", Cluster: "y"}, Hello{Node: "n2", Addr: "b:1", Cluster: "y"}
	for _, c := range []struct {
		heard  []Hello
		refuse bool
	}{
		{nil, false},
		{[]Hello{{Node: "n2", Addr: "b:1"}, {Node: "n3", Addr: "c:1"}}, false},
		{[]Hello{same, other}, false},
		{[]Hello{other}, true},
		{[]Hello{other, third}, true},
	} {
		if err := Foreign(self, c.heard, 3); (err != nil) != c.refuse {
			t.Errorf("%+v: %v", c.heard, err)
		}
	}
}
