package load

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"time"
)

// Wire is how messages are exchanged on a connection. The methods of a wire may be called at the same time.
type Wire interface {
	// Open prepares a new connection.
	Open(c *Conn) error
	// Receive returns the next message, which is valid until the next call.
	Receive(c *Conn) ([]byte, error)
	// Answers returns how many requests a message answers. It fails if the message is a refusal.
	Answers(msg []byte) (int, error)
}

// Publisher sends pieces of a text to the readers of a session. They are not stored and not answered.
type Publisher interface {
	Wire
	// Piece appends a request with the next piece.
	Piece(requests []byte, session string, offset int, text []byte) []byte
}

// Appender sends messages to a session and gets answers.
type Appender interface {
	Wire
	// Append is a request with messages, as one message of the wire if the server can do that.
	Append(t Target, session string, texts []string) Request
}

// Subscriber reads a session.
type Subscriber interface {
	Wire
	Subscribe(t Target, session string) Subscription
}

// Resumer reads sessions from their beginning.
type Resumer interface {
	// Resume returns the subscriber of a reader that comes back and has nothing of the session.
	Resume(t Target, session string) (Subscriber, error)
}

// Lister reads history.
type Lister interface {
	Wire
	// Last asks for the last n messages.
	Last(t Target, session string, n int) Request
}

// Request is a request that is sent again and again, with new stamps each time.
type Request struct {
	First   []byte // sent once on a connection before the others, and not answered
	Bytes   []byte
	Answers int // to each
}

// Subscription is how a reader begins, and goes on.
type Subscription struct {
	Request []byte
	// Answers is how many to wait for; then the reader gets everything that is sent later.
	Answers int
	// Next returns the request that follows on what was received, nil for none. It is nil for servers that send on their own.
	Next func(received []byte) []byte
}

// drafts is one draft, or an array of them.
func drafts(texts []string) []byte {
	var b []byte
	for i, t := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, `{"type":"user.message","payload":{"text":"`...), t...), `"}}`...)
	}
	if len(texts) > 1 {
		b = append(append([]byte{'['}, b...), ']')
	}
	return b
}

// textSize makes a payload {"text":"…"} of 300 bytes.
const textSize = 300 - len(`{"text":""}`)

// words are what messages consist of. They are not real words, because few repeated ones would compress too well.
var words = sync.OnceValue(func() (all []string) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		w := make([]byte, 2+r.IntN(9))
		for i := range w {
			w[i] = "etaoinshrdlucmfwypvbgk"[r.IntN(1+r.IntN(22))]
		}
		all = append(all, string(w))
	}
	return all
})

// texts returns n messages, others for another seed; their stamps are set later.
func texts(seed, n int) []string {
	r := rand.New(rand.NewPCG(3, uint64(seed)))
	all, known := make([]string, n), words()
	for i := range all {
		b := AppendStamp(nil, time.UnixMicro(0))
		for len(b) < textSize {
			b = append(append(b, ' '), known[r.IntN(1+r.IntN(len(known)))]...)
		}
		all[i] = string(b[:textSize])
	}
	return all
}

// prepared is a request whose stamps are set each time it is sent.
type prepared struct {
	Request
	stamps []int
}

func prepare(r Request) *prepared {
	p := &prepared{Request: r}
	for at := 0; ; {
		i := bytes.IndexByte(r.Bytes[at:], mark)
		if i < 0 {
			return p
		}
		p.stamps = append(p.stamps, at+i)
		at += i + stampSize
	}
}

// now sets the stamps and returns the bytes.
func (p *prepared) now() []byte {
	now := time.Now()
	for _, at := range p.stamps {
		AppendStamp(p.Bytes[:at], now)
	}
	return p.Bytes
}
