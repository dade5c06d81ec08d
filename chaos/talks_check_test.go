package main

import (
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialecttest"
)

func TestCheckAnswers(t *testing.T) {
	for _, test := range []struct {
		dialects [2]string
		clientID string // of the stored answer
		late     [2]bool
		want     string
	}{
		{[2]string{"native", "x1"}, "k0", [2]bool{false, true}, ""},
		{[2]string{"native", "x1"}, "k1", [2]bool{true, false}, ""},
		{[2]string{"native", "x1"}, "k0", [2]bool{false, false}, "the answer came late, and the client was not told"},
		{[2]string{"native", "x1"}, "k0", [2]bool{true, true}, "the answer counts, and the client was told that it came late"},
		{[2]string{"native", "x1"}, "k2", [2]bool{true, true}, `the answer with the client_id "k2" is stored, ["k0" "k1"] were sent`},
		{[2]string{"x1", "agui"}, "k0", [2]bool{false, false}, ""}, // it has answered the same
		{[2]string{"x1", "agui"}, "agui-run:7:r-k1", [2]bool{true, false}, ""},
		{[2]string{"x1", "agui"}, "agui-run:7:r-k1", [2]bool{false, false}, "the answer came late, and the client was not told"},
		{[2]string{"agui", "aisdk"}, "", [2]bool{false, false}, ""},
	} {
		k := &talk{}
		r := &round{answers: map[int]string{0: "k0", 1: "k1"}}
		var seen []dialecttest.Seen
		for i, d := range test.dialects {
			k.clients = append(k.clients, &talker{dialect: d})
			seen = append(seen, dialecttest.Seen{Late: test.late[i]})
		}
		got := ""
		if err := k.checkAnswers(r, seen, &chat.Event{ClientID: test.clientID}); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%v, %q is stored, late %v: %q", test.dialects, test.clientID, test.late, got)
		}
	}
}
