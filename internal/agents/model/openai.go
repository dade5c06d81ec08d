package model

import (
	"bytes"
	"context"
	"net/http"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/openai"
)

// openAI is what both protocols of OpenAI share.
type openAI struct {
	opt    *Options
	base   string
	client *http.Client
}

// options are those of one request. The SDK's own constructor of a client is not
// used: it would look into the environment and send a key that is meant
// for somebody else.
func (o *openAI) options(key string) []option.RequestOption {
	opts := []option.RequestOption{option.WithBaseURL(o.base), option.WithHTTPClient(o.client), option.WithMaxRetries(0)}
	if key != "" {
		opts = append(opts, option.WithAPIKey(key))
	}
	for name, value := range o.opt.Headers {
		opts = append(opts, option.WithHeader(name, value))
	}
	return opts
}

func (o *openAI) list(ctx context.Context, key string) error {
	models := sdk.NewModelService(o.options(key)...)
	_, err := models.List(ctx)
	return err
}

// chatAPI speaks Chat Completions.
type chatAPI struct{ openAI }

func (c *chatAPI) ask(ctx context.Context, key string, r llm.Request, alive func(), see func(llm.Delta) error) (llm.Answer, error) {
	p := openai.Chat(r)
	p.StreamOptions.IncludeUsage = param.NewOpt(true)
	if c.opt.Temperature != nil {
		p.Temperature = param.NewOpt(*c.opt.Temperature)
	}
	if r.Effort != "" {
		p.ReasoningEffort = shared.ReasoningEffort(r.Effort)
	}
	client := sdk.Client{Options: c.options(key)}
	var response *http.Response
	err := client.Post(ctx, "chat/completions", p, &response, option.WithJSONSet("stream", true))
	if err != nil {
		return llm.Answer{}, failure(ctx, err)
	}
	decoder := &decoder{Decoder: ssestream.NewDecoder(response)}
	stream := ssestream.NewStream[chunk](decoder, nil)
	defer stream.Close()
	s := openai.ChatStream{Meta: llm.Meta{Model: r.Model, Tools: r.Tools}}
	begun, ended := false, false
	for stream.Next() {
		alive()
		begun = true
		chunk := stream.Current()
		for i := range chunk.Choices {
			ended = ended || chunk.Choices[i].FinishReason != ""
		}
		for _, d := range s.Add(chunk.ChatCompletionChunk) {
			if err := see(d); err != nil {
				return llm.Answer{}, err
			}
		}
	}
	if err := stream.Err(); err != nil {
		return llm.Answer{}, failure(ctx, err)
	}
	if !ended && !decoder.done {
		return llm.Answer{}, unended(ctx, response, begun)
	}
	drain(response)
	return s.Answer()
}

// decoder notes the end of a stream: some endpoints say no more than that.
type decoder struct {
	ssestream.Decoder
	done bool
}

// Next reads an event.
func (d *decoder) Next() bool {
	more := d.Decoder.Next()
	d.done = d.done || more && bytes.HasPrefix(d.Event().Data, []byte("[DONE]"))
	return more
}

// responsesAPI speaks Responses.
type responsesAPI struct{ openAI }

func (c *responsesAPI) ask(ctx context.Context, key string, r llm.Request, alive func(), see func(llm.Delta) error) (llm.Answer, error) {
	p := openai.Responses(r)
	if c.opt.Temperature != nil {
		p.Temperature = param.NewOpt(*c.opt.Temperature)
	}
	if r.Effort != "" {
		p.Reasoning.Effort = shared.ReasoningEffort(r.Effort)
	}
	service := responses.NewResponseService(c.options(key)...)
	var response *http.Response
	stream := service.NewStreaming(ctx, p, option.WithResponseInto(&response))
	defer stream.Close()
	s := openai.ResponsesStream{Meta: llm.Meta{Model: r.Model, Tools: r.Tools}}
	begun, ended := false, false
	for stream.Next() {
		alive()
		begun = true
		e := stream.Current()
		switch e.Type {
		case "response.completed", "response.incomplete":
			ended = true
		case "response.failed":
			return llm.Answer{}, failed(string(e.Response.Error.Code), e.Response.Error.Message)
		case "error":
			return llm.Answer{}, failed(e.Code, e.Message)
		}
		for _, d := range s.Add(e) {
			if err := see(d); err != nil {
				return llm.Answer{}, err
			}
		}
	}
	if err := stream.Err(); err != nil {
		return llm.Answer{}, failure(ctx, err)
	}
	if !ended {
		return llm.Answer{}, unended(ctx, response, begun)
	}
	drain(response)
	a, err := s.Answer()
	if chat.CodeOf(err) == chat.Unavailable && a.Stop == llm.StopFailure {
		return a, cutOff(ctx)
	}
	return a, err
}
