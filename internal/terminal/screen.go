package terminal

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// history is how many items of an existing session are loaded.
const history = 200

// Screen runs a conversation in full-screen mode until the person leaves. explain formats an error for a person.
func Screen(ctx context.Context, cl *client.Client, s chat.Session, in, out *os.File, explain func(error) string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newScreen(ctx, cl, s, explain)
	after, err := m.load(ctx)
	if err != nil {
		return err
	}
	p := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	var feed sync.WaitGroup
	feed.Go(func() { follow(ctx, cl, s.ID, after, p.Send) })
	final, err := p.Run()
	cancel()
	feed.Wait()
	if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, context.Canceled) {
		err = nil
	}
	if done, ok := final.(*screen); ok && err == nil {
		err = done.fatal
	}
	return err
}

// Messages to the screen.
type (
	frameMsg client.Frame
	linkMsg  client.Link
	endMsg   struct{ err error } // the stream has ended and is not resumed
	tickMsg  time.Time
	sentMsg  struct {
		clientID string
		err      error
	}
	answeredMsg struct {
		requestID string
		err       error
	}
	stoppedMsg   struct{ err error }
	withdrawnMsg struct {
		text string
		err  error
	}
)

// follow sends the frames of the stream to the screen.
func follow(ctx context.Context, cl *client.Client, id chat.SessionID, after string, send func(tea.Msg)) {
	opt := client.WatchOptions{After: after, Link: func(l client.Link) { send(linkMsg(l)) }}
	for f, err := range cl.Watch(ctx, id, opt) {
		if err != nil {
			if ctx.Err() == nil {
				send(endMsg{err})
			}
			return
		}
		send(frameMsg(f))
	}
}

// screen is the state of the terminal conversation.
type screen struct {
	ctx     context.Context // of the program; the commands of bubbletea have no context
	cl      *client.Client
	session chat.Session
	explain func(error) string

	conversation *conversation

	width, height int
	scroll        int // lines below the screen
	input         textarea.Model
	form          *form // of the open prompt; nil without one
	away          bool  // keys go to the message although a prompt is open
	confirm       bool  // the next key says whether to stop the turn, which withdraws its prompts

	outbox  []outgoing
	sending bool
	link    client.Link
	clock   time.Duration // server's clock minus the local clock
	now     time.Time
	notice  string
	fatal   error
}

func newScreen(ctx context.Context, cl *client.Client, s chat.Session, explain func(error) string) *screen {
	m := &screen{ctx: ctx, cl: cl, session: s, explain: explain, conversation: newConversation(&chat.Transcript{State: chat.State{Session: s}}), input: editor("› ", "Write a message"), now: time.Now()}
	m.resize(80, 24)
	return m
}

// maxAnswerLines is how many lines of a message or an answer are visible while it is written.
const maxAnswerLines = 6

// editor is an input field of several lines.
func editor(prompt, placeholder string) textarea.Model {
	in := textarea.New()
	in.ShowLineNumbers = false
	in.Prompt, in.Placeholder = prompt, placeholder
	in.DynamicHeight, in.MinHeight, in.MaxHeight = true, 1, maxAnswerLines
	in.MaxContentHeight = chat.MaxEvent // pasted text may have any number of lines
	in.CharLimit = chat.MaxEvent / 4
	in.SetVirtualCursor(false)
	in.KeyMap.InsertNewline.SetKeys("alt+enter", "shift+enter", "ctrl+j")
	in.SetStyles(inputStyles())
	in.Focus()
	return in
}

// load loads the last items and returns the cursor to continue from.
func (m *screen) load(ctx context.Context) (after string, err error) {
	snap, err := m.cl.Snapshot(ctx, m.session.ID, history)
	if err != nil {
		return "", err
	}
	m.session, m.clock = snap.Session, time.Until(snap.ServerNow.Time())
	m.conversation = newConversation(snap.Transcript())
	m.conversation.ticks = os.Getenv("NO_COLOR") != ""
	m.identify(ctx)
	if m.showForm(); m.form != nil {
		m.form.fresh = false // no message is being written yet
	}
	return snap.Cursor.String(), nil
}

// identify asks the server for the person at this screen, and whether it knows the agent. The conversation works without
// the answers.
func (m *screen) identify(ctx context.Context) {
	if who, err := m.cl.Whoami(ctx); err == nil {
		m.conversation.me = who.Actor
	}
	agents, err := m.cl.Agents(ctx)
	known := func(a client.Agent) bool { return a.Name == m.session.Agent }
	if err == nil && len(agents) > 0 && m.session.Agent != chat.NoAgent && !slices.ContainsFunc(agents, known) {
		m.notice = "this server has no agent " + m.session.Agent + "; messages wait until it connects"
	}
}

// Init starts the clock and reads the files that are shown.
func (m *screen) Init() tea.Cmd { return tea.Batch(tick(), m.readFiles()) }

func tick() tea.Cmd {
	return tea.Tick(time.Second, func(t time.Time) tea.Msg { return tickMsg(t) })
}

// Update handles a message of bubbletea.
func (m *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.resize(msg.Width, msg.Height)
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		m.confirm = false
		if m.form == nil || m.away {
			var cmd tea.Cmd
			m.input, cmd = m.input.Update(msg)
			return m, cmd
		}
		m.form.pasted(msg)
	case tea.MouseWheelMsg:
		if msg.Button == tea.MouseWheelUp {
			m.move(3)
		} else {
			m.move(-3)
		}
	case frameMsg:
		return m, m.keepPlace(func() tea.Cmd { return m.frame(client.Frame(msg)) })
	case armMsg:
		if m.form != nil && m.form.prompt.RequestID == string(msg) {
			m.form.fresh = false
		}
	case linkMsg:
		m.link = client.Link(msg)
		if m.link.Up {
			return m, m.flush()
		}
	case endMsg:
		m.fatal = msg.err
		return m, tea.Quit
	case sentMsg:
		return m, m.sent(msg)
	case answeredMsg:
		m.answered(msg)
	case stoppedMsg:
		if msg.err != nil {
			m.notice = m.explain(msg.err)
		}
	case withdrawnMsg:
		m.withdrawn(msg)
	case fileMsg:
		return m, m.keepPlace(func() tea.Cmd { m.conversation.read(msg); return nil })
	case editedMsg:
		m.edited(msg)
	case tickMsg:
		m.now = time.Time(msg)
		return m, tea.Batch(tick(), m.flush())
	}
	return m, nil
}

func (m *screen) resize(w, h int) {
	m.width, m.height = max(16, w), max(4, h)
	m.input.SetWidth(m.width)
	if m.form != nil {
		m.form.resize(m.width)
	}
}

// keepPlace makes a change. If the person has scrolled up, the visible lines stay where they are.
func (m *screen) keepPlace(change func() tea.Cmd) tea.Cmd {
	if m.scroll == 0 {
		return change()
	}
	lines, room := m.lines(), m.room()
	cmd := change()
	m.scroll = max(0, m.scroll+m.lines()-lines+room-m.room())
	return cmd
}

// frame handles one frame of the stream.
func (m *screen) frame(f client.Frame) tea.Cmd {
	switch {
	case f.Hello != nil:
		m.clock = time.Until(f.Hello.ServerNow.Time())
	case f.Preview != nil:
		m.conversation.Preview(f.Preview)
	case f.Event != nil:
		if f.Event.ClientID != "" {
			m.outbox = slices.DeleteFunc(m.outbox, func(o outgoing) bool { return o.clientID == f.Event.ClientID })
		}
		m.conversation.apply(f.Event)
		_, over := f.Event.Body.(chat.TurnCompleted)
		if m.notice == stopping && (over && f.Event.Workstream == "" || !m.conversation.runs()) {
			m.notice = ""
		}
		m.keepDraft(f.Event)
		m.confirm = m.confirm && len(m.conversation.State.Prompts) > 0
		return tea.Batch(m.showForm(), m.readFiles())
	}
	return nil
}

// room is how many lines of the conversation are on the screen.
func (m *screen) room() int {
	bottom, _ := m.bottom()
	return max(0, m.height-len(bottom))
}

// lines is the number of lines of the conversation.
func (m *screen) lines() int {
	n := 0
	for _, o := range m.outbox {
		n += len(messageLines("", o.text, notSent, m.width))
	}
	for lines := range m.conversation.backward(m.width) {
		n += len(lines)
	}
	return n
}

func (m *screen) key(k tea.KeyPressMsg) tea.Cmd {
	m.notice = ""
	if m.confirm && k.String() != "ctrl+c" {
		if m.confirm = false; k.String() == "s" {
			return m.stop()
		}
		return nil
	}
	switch k.String() {
	case "ctrl+c":
		return tea.Quit
	case "ctrl+d":
		if m.input.Value() == "" || m.form != nil && !m.away {
			return tea.Quit
		}
	case "pgup":
		m.move(m.height / 2)
		return nil
	case "pgdown":
		m.move(-m.height / 2)
		return nil
	case "ctrl+n":
		m.nextPrompt()
		return nil
	case "tab":
		if m.form != nil {
			m.away = !m.away
			return nil
		}
	case "esc":
		if m.form != nil && !m.away && m.form.back() {
			return nil
		}
		if m.conversation.runs() && len(m.conversation.State.Prompts) > 0 {
			m.confirm = true
			return nil
		}
		return m.stop()
	case "ctrl+o":
		if f := m.form; f != nil && !m.away && !f.fresh && !f.sent && f.prompt.Approval != nil && !f.typing {
			return m.openEditor()
		}
	case "up":
		if q, ok := m.lastQueued(); ok && m.input.Value() == "" && (m.form == nil || m.away) {
			return m.withdraw(q)
		}
	}
	if m.form != nil && !m.away && (m.form.fresh || !m.form.takes(k)) && k.Key().Text != "" {
		m.away = true
	}
	if m.form != nil && !m.away && !m.form.fresh {
		if a, ready := m.form.key(k); ready {
			return m.answer(a)
		}
		return nil
	}
	if k.String() == "enter" {
		return m.send()
	}
	var cmd tea.Cmd
	m.input, cmd = m.input.Update(k)
	return cmd
}

func (m *screen) move(lines int) { m.scroll = max(0, m.scroll+lines) }

const stopping = "stopping…"

// stop stops the turn and all workstreams.
func (m *screen) stop() tea.Cmd {
	if !m.conversation.runs() {
		return nil
	}
	m.notice = stopping
	id := m.session.ID
	return func() tea.Msg {
		_, err := m.cl.Stop(m.ctx, id, client.StopOptions{Workstreams: true, Reason: "stopped from the terminal"})
		return stoppedMsg{err}
	}
}
