package terminal

import (
	"context"
	"io"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// maxFile is how large the file of a table or chart may be to be shown.
const maxFile = 1 << 20

// file is the content of an artifact that is not in its event.
type file struct {
	data []byte
	err  error
}

// fileMsg is a file that was read, by the id of its item.
type fileMsg struct {
	item string
	file file
}

// inFile reports whether the data of a table or chart is in a file that is small enough to be shown.
func inFile(a *chat.AgentArtifact) bool {
	return (a.ArtifactType == "table" || a.ArtifactType == "chart") && len(a.Data) == 0 && a.Path != "" && a.Size <= maxFile
}

// readArtifact reads the file of an artifact.
func readArtifact(ctx context.Context, cl *client.Client, id chat.SessionID, path string) ([]byte, error) {
	body, _, err := cl.Download(ctx, id, path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, maxFile))
}

// readFiles reads the files of tables and charts that were not read yet.
func (m *screen) readFiles() tea.Cmd {
	var cmds []tea.Cmd
	for i := range m.conversation.Items {
		it := &m.conversation.Items[i]
		if it.Artifact == nil || !inFile(it.Artifact) || m.conversation.files[it.ID] != nil {
			continue
		}
		m.conversation.files[it.ID] = &file{}
		id, item, path := m.session.ID, it.ID, it.Artifact.Path
		cmds = append(cmds, func() tea.Msg {
			data, err := readArtifact(m.ctx, m.cl, id, path)
			return fileMsg{item, file{data, err}}
		})
	}
	return tea.Sequence(cmds...)
}

// read shows a file.
func (c *conversation) read(msg fileMsg) {
	c.files[msg.item] = &msg.file
	delete(c.drawn, msg.item)
}

// artifact lays out an artifact behind a mark.
func (c *conversation) artifact(it *chat.Item, mark string, width int) []string {
	indent := ansi.StringWidth(mark)
	width -= indent
	f := c.files[it.ID]
	if f == nil {
		f = &file{}
	}
	lines := artifactLines(it.Artifact, f.data, width)
	if f.err != nil {
		lines = append(lines, wrap("the file cannot be read: "+f.err.Error(), width, "  ", bad)...)
	}
	return prefix(lines, mark, strings.Repeat(" ", indent))
}
