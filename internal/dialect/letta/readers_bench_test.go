package letta

import (
	"context"
	"fmt"
	"testing"

	"github.com/parley-hq/parley/agent"
)

// talkingAgent writes a number of words after it received from proceed.
type talkingAgent struct {
	words   int
	proceed chan struct{}
}

func (a talkingAgent) Answer(ctx context.Context, t *agent.Turn) error {
	select {
	case <-a.proceed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s := t.Stream(true)
	for i := range a.words {
		if err := s.Write(ctx, fmt.Sprintf("word%d ", i)); err != nil {
			return err
		}
	}
	return s.Close(ctx)
}

// BenchmarkReaders streams one run to several readers.
func BenchmarkReaders(b *testing.B) {
	const words = 2000
	for _, readers := range []int{1, 20, 200} {
		b.Run(fmt.Sprint(readers), func(b *testing.B) {
			proceed := make(chan struct{})
			w := newTestServer(b, setup{agents: map[string]agent.Agent{"talker": talkingAgent{words, proceed}}})
			a := w.agent(`{"model":"parley/talker"}`)
			b.ReportAllocs()
			frames := 0
			for b.Loop() {
				b.StopTimer()
				var all []*reader
				first := w.open("/v1/agents/"+a+"/messages", message("go", `,"streaming":true,"stream_tokens":true`))
				ping, _ := first.next()
				all = append(all, first)
				for len(all) < readers {
					r := w.open("/v1/runs/"+ping.Run+"/stream", "{}")
					r.next()
					all = append(all, r)
				}
				done := make(chan int)
				b.StartTimer()
				for _, r := range all {
					go func() {
						n := 0
						for r.lines.Scan() {
							if len(r.lines.Bytes()) > 0 {
								n++
							}
						}
						done <- n
					}()
				}
				proceed <- struct{}{}
				for range all {
					frames += <-done
				}
			}
			b.ReportMetric(float64(frames)/b.Elapsed().Seconds(), "frames/s")
		})
	}
}
