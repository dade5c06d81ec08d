package demo

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

func artifact(ctx context.Context, t *agent.Turn, kind string) error {
	if err := publish(ctx, t, kind); err != nil {
		if chat.CodeOf(err) == chat.Invalid {
			return say(ctx, t, "Usage: /artifact table|chart|image|file|html")
		}
		return err
	}
	return say(ctx, t, fmt.Sprintf("Here is the %s.", kind))
}

// publish makes one artifact of a kind.
func publish(ctx context.Context, t *agent.Turn, kind string) error {
	name := "demo-" + t.Label()
	switch kind {
	case "table":
		return t.Artifact(ctx, chat.AgentArtifact{
			ArtifactID: name + "-table", ArtifactType: "table", Title: "Cities by size", MediaType: "application/json",
			Data: json.RawMessage(`{"columns":["City","Country","Million people"],"rows":[["Tokyo","Japan",37.1],["Delhi","India",33.8],["Shanghai","China",29.9],["São Paulo","Brazil",22.8]]}`),
		})
	case "chart":
		return t.Artifact(ctx, chat.AgentArtifact{
			ArtifactID: name + "-chart", ArtifactType: "chart", Title: "Visits per day", MediaType: "application/json",
			Data: json.RawMessage(`{"type":"bar","x":["Mon","Tue","Wed","Thu","Fri"],"series":[{"name":"Visits","values":[120,180,150,210,240]}]}`),
		})
	case "image":
		return t.File(ctx, chat.AgentArtifact{
			ArtifactID: name + "-image", ArtifactType: "image", Title: "A gradient", Path: "out/" + name + ".png", MediaType: "image/png",
		}, bytes.NewReader(gradient()))
	case "file":
		return t.File(ctx, chat.AgentArtifact{
			ArtifactID: name + "-file", ArtifactType: "file", Title: "report.csv", Path: "out/" + name + ".csv", MediaType: "text/csv",
		}, strings.NewReader("day,visits\nMon,120\nTue,180\nWed,150\n"))
	case "html":
		return t.File(ctx, chat.AgentArtifact{
			ArtifactID: name + "-html", ArtifactType: "html", Title: "A small page", Path: "out/" + name + ".html", MediaType: "text/html",
		}, strings.NewReader("<!doctype html><title>Demo</title><h1>Made by the demo agent</h1><p>This page is shown in a sandbox.</p>"))
	}
	return chat.Errorf(chat.Invalid, "no such kind of artifact")
}

// gradient is a small picture, the same every time.
func gradient() []byte {
	const w, h = 320, 120
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.Set(x, y, color.RGBA{R: uint8(40 + x*160/w), G: uint8(90 + y*100/h), B: 180, A: 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err) // a picture in memory can always be written to memory
	}
	return b.Bytes()
}
