package session

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

func TestKilledAtEveryStepOfAnErase(t *testing.T) {
	s := newSite(t)
	s.fill("s")
	s.close()
	if len(s.holders()) < 4 {
		t.Fatal("the secret is not everywhere: ", s.holders())
	}
	s.open()
	erase := func() error { _, err := s.Erase(ctx, ann, "s"); return err }
	s.killAtEveryStep(erase, func(p *site) string {
		_, err := p.Get(ctx, ann, "s")
		if err == nil {
			_, archived := os.Stat(p.archive("s"))
			if p.file("s", "notes/a.txt") == "" || archived != nil || len(p.facts("s")) == 0 {
				p.t.Error("the session is there without all that it had")
			}
			p.counted("s")
			return "there"
		}
		for _, c := range []chat.Caller{ann, chat.Trusted} {
			_, err := p.Get(ctx, c, "s")
			_, again := p.Erase(ctx, c, "s")
			_, _, create := p.Create(ctx, c, chat.NewSession{ID: "s"})
			for _, err := range []error{err, again, create} {
				if chat.CodeOf(err) != chat.Gone {
					p.t.Errorf("%s: %v", c.Actor.Key(), err)
				}
			}
		}
		if own, all, err := p.log.Stored(ctx, "", ann.Actor); own != 0 || all != 0 || err != nil {
			p.t.Errorf("%d and %d bytes are counted (%v)", own, all, err)
		}
		p.close()
		if left := p.holders(); len(left) > 0 {
			p.t.Errorf("the text is in %v", left)
		}
		if n := p.tombstones(); n != 1 {
			p.t.Errorf("there are %d tombstones", n)
		}
		p.open()
		return "gone"
	}, "there", "gone")
}

func TestKilledAtEveryStepOfAnImport(t *testing.T) {
	from := newSite(t)
	from.fill("s")
	for i := range 12 { // more than one batch of the store
		_, err := from.Append(ctx, bot, "s", []chat.Draft{chat.NewDraft(chat.AgentText{Text: fmt.Sprint(i, strings.Repeat("long ", 24<<10))})})
		from.check(err)
	}
	_, err := from.Append(ctx, bot, "s", []chat.Draft{chat.NewDraft(chat.AgentInputRequest{InputType: chat.InputText, Text: "Name?"})})
	from.check(err)
	facts := from.facts("s")
	s := newSite(t)
	root := user("root", chat.ScopeAdmin)
	load := func(p *site) error {
		_, err := p.Import(ctx, root, "s", func(yield func(chat.Fact, error) bool) {
			for _, f := range facts {
				if !yield(f, nil) {
					return
				}
			}
		})
		return err
	}
	s.killAtEveryStep(func() error { return load(s) }, func(p *site) string {
		got, state := p.facts("s"), "there"
		if got == nil {
			state = "not there"
			if own, all, err := p.log.Stored(ctx, "", ann.Actor); own != 0 || all != 0 || err != nil {
				p.t.Errorf("%d and %d bytes are counted (%v)", own, all, err)
			}
			p.check(load(p)) // the id is not in use
			got = p.facts("s")
		}
		if len(got) != len(facts) {
			p.t.Fatalf("%d of %d events", len(got), len(facts))
		}
		for i := range got {
			if !bytes.Equal(got[i].JSON, facts[i].JSON) {
				p.t.Errorf("event %d is another one", i+1)
			}
		}
		p.counted("s")
		return state
	}, "not there", "there")
}

func TestKilledAtEveryStepOfAFork(t *testing.T) {
	s := newSite(t)
	s.fill("s")
	s.put("s", "b", "second")
	past := len(s.facts("s"))
	fork := func(p *site) error { _, err := p.Fork(ctx, ann, "s", chat.Fork{ID: "f"}); return err }
	s.killAtEveryStep(func() error { return fork(s) }, func(p *site) string {
		got, state := p.facts("f"), "there"
		if got == nil {
			state = "not there"
			if n, _, err := p.artifacts.Usage(ctx, "f"); n != 0 || err != nil {
				p.t.Errorf("there is no fork, but %d files of it (%v)", n, err)
			}
			p.check(fork(p))
			got = p.facts("f")
		}
		if len(got) <= past || p.file("f", "notes/a.txt") != "first "+secret || p.file("f", "b") != "second" {
			p.t.Errorf("the fork is not whole: %d events", len(got))
		}
		p.counted("f")
		p.counted("s")
		return state
	}, "not there", "there")
}

// lastSum returns the hash that the log has for a path, or "" if there is no file.
func (s *site) lastSum(id chat.SessionID, path string) (sum string) {
	s.t.Helper()
	for _, f := range s.facts(id) {
		e, err := f.Event()
		s.check(err)
		switch b := e.Body.(type) {
		case chat.FileUploaded:
			if b.Path == path {
				sum = b.SHA256
			}
		case chat.FileRemoved:
			if b.Path == path {
				sum = ""
			}
		}
	}
	return sum
}

func TestKilledAtEveryStepOfAnUpload(t *testing.T) {
	agree := func(p *site) string {
		sum := ""
		info, err := p.artifacts.Stat(ctx, "s", "notes/a.txt")
		if err == nil {
			sum = info.SHA256
		} else if chat.CodeOf(err) != chat.NotFound {
			p.t.Fatal(err)
		}
		if said := p.lastSum("s", "notes/a.txt"); said != sum {
			p.t.Errorf("the log says %q, the file is %q", said, sum)
		}
		p.counted("s")
		return p.file("s", "notes/a.txt")
	}
	put := func(s *site, text string) func() error {
		return func() error {
			_, err := s.PutFile(ctx, ann, "s", core.FilePut{Path: "notes/a.txt", Body: strings.NewReader(text)})
			return err
		}
	}
	t.Run("new", func(t *testing.T) {
		s := newSite(t)
		_, _, err := s.Create(ctx, ann, chat.NewSession{ID: "s"})
		s.check(err)
		s.killAtEveryStep(put(s, "new"), agree, "", "new")
	})
	t.Run("replace", func(t *testing.T) {
		s := newSite(t)
		s.fill("s")
		s.killAtEveryStep(put(s, "second, longer "+secret), agree, "first "+secret, "second, longer "+secret)
	})
	t.Run("remove", func(t *testing.T) {
		s := newSite(t)
		s.fill("s")
		s.killAtEveryStep(func() error { return s.RemoveFile(ctx, ann, "s", "notes/a.txt", "") }, agree, "first "+secret, "")
	})
}
