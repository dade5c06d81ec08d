package x1

import (
	"testing"
	"time"
)

// Missing messages are distinguished from expired ones and from those that a kill lost.
func TestArchiveStateTellsLossFromAge(t *testing.T) {
	t.Parallel()
	made := time.Unix(1_800_000_000, 0)
	was := archiveState{Created: made, First: 10, FirstAt: made, Last: 100, Messages: 91}
	for name, c := range map[string]struct {
		now            archiveState
		clean, expired bool
		lost           bool
	}{
		"unchanged":                       {was, true, false, false},
		"more":                            {archiveState{made, 10, made, 150, 141}, true, false, false},
		"made anew":                       {archiveState{made.Add(1), 0, made, 0, 0}, true, false, true},
		"the end is gone":                 {archiveState{made, 10, made, 90, 81}, true, false, true},
		"the end is gone after a kill":    {archiveState{made, 10, made, 90, 81}, false, false, false},
		"the beginning is gone":           {archiveState{made, 50, made, 100, 51}, true, false, true},
		"the beginning is too old":        {archiveState{made, 50, made, 100, 51}, true, true, false},
		"the middle is gone":              {archiveState{made, 10, made, 100, 90}, true, false, true},
		"the middle is gone after a kill": {archiveState{made, 10, made, 90, 80}, false, false, true},
		"the middle is gone and the beginning is too old": {archiveState{made, 50, made, 100, 50}, true, true, true},
	} {
		what := c.now.missing(&was, c.clean, func(time.Time) bool { return c.expired })
		if (what != "") != c.lost {
			t.Errorf("%s: %q", name, what)
		}
	}
	if what := was.missing(nil, true, nil); what != "" {
		t.Errorf("without a record: %q", what)
	}
}
