package chat

import (
	"encoding/json"
	"os"
	"testing"
)

func TestHeadingLeavesOutSecrets(t *testing.T) {
	b, err := os.ReadFile("testdata/headings.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ Text, Heading string }
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if got := headingOf(c.Text); got != c.Heading {
			t.Errorf("headingOf(%q) = %q, want %q", c.Text, got, c.Heading)
		}
	}
}
