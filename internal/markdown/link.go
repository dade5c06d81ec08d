package markdown

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxAddress is how long the address of a link may be; the search for its end stops there.
const maxAddress = 4096

// maxBrackets is how many unmatched brackets are remembered; older ones are text.
const maxBrackets = 16

// bracket is an unmatched "[" or "![".
type bracket struct {
	node int // its index
	at   int // where the text behind it begins
}

// link completes the link whose text ends at i and returns where its markup ends.
func (in *inlines) link(i int, open bool) (end int, ok bool) {
	if len(in.brackets) == 0 {
		return 0, false
	}
	b := in.brackets[len(in.brackets)-1]
	in.brackets = in.brackets[:len(in.brackets)-1]
	address, end, ok := in.destination(i+1, in.src[b.at:i], open)
	if !ok {
		return 0, false
	}
	in.emphasis(b.node+1, false)
	var text strings.Builder
	for _, n := range in.nodes[b.node+1:] {
		text.WriteString(n.text)
	}
	image := in.nodes[b.node].text == "!["
	in.nodes[b.node].text = ""
	in.nodes[b.node].open++
	if !image {
		in.brackets = in.brackets[:0] // a link contains no links
	}
	in.nodes = append(in.nodes, node{close: 1})
	if address != "" && address != text.String() && strings.TrimPrefix(address, "mailto:") != text.String() {
		in.add(address, Address)
	}
	return end, true
}

// destination reads the address behind the text of a link: "(address)", "[label]", or the text is the label.
func (in *inlines) destination(i int, text string, open bool) (address string, end int, ok bool) {
	if i < len(in.src) && in.src[i] == '(' {
		if address, end, ok = inlineAddress(in.src, i+1); ok {
			return address, end, true
		}
		if open && !strings.ContainsAny(in.src[i:], ") \n") {
			return "", len(in.src), true // the address is still being written
		}
	}
	label := text
	end = i
	if i < len(in.src) && in.src[i] == '[' {
		n := strings.IndexByte(in.src[i:min(len(in.src), i+1000)], ']')
		if n > 1 {
			label = in.src[i+1 : i+n]
		}
		if n > 0 {
			end = i + n + 1
		}
	}
	if open && i == len(in.src) {
		return "", i, true // the address may follow
	}
	if len(label) > 1000 || len(in.addresses) == 0 {
		return "", 0, false
	}
	address, ok = in.addresses[labelOf(label)]
	return address, end, ok
}

// inlineAddress reads an address in parentheses, with or without a title.
func inlineAddress(src string, i int) (address string, end int, ok bool) {
	limit := min(len(src), i+maxAddress)
	for i < limit && (src[i] == ' ' || src[i] == '\n') {
		i++
	}
	start := i
	if i < limit && src[i] == '<' {
		n := strings.IndexAny(src[i:limit], ">\n")
		if n < 0 || src[i+n] != '>' {
			return "", 0, false
		}
		address, i = src[i+1:i+n], i+n+1
	} else {
		for depth := 0; i < limit && src[i] != ' ' && src[i] != '\n'; i++ {
			if src[i] == '\\' && i+1 < limit && isPunct(src[i+1]) {
				i++
			} else if src[i] == '(' {
				depth++
			} else if src[i] == ')' {
				if depth == 0 {
					break
				}
				depth--
			}
		}
		i = min(i, limit)
		address = src[start:i]
	}
	for i < limit && (src[i] == ' ' || src[i] == '\n') {
		i++
	}
	if i < limit && strings.IndexByte(`"'(`, src[i]) >= 0 {
		quote := src[i]
		if quote == '(' {
			quote = ')'
		}
		n := strings.IndexByte(src[i+1:limit], quote)
		if n < 0 {
			return "", 0, false
		}
		i += n + 2
		for i < limit && (src[i] == ' ' || src[i] == '\n') {
			i++
		}
	}
	if i >= limit || src[i] != ')' {
		return "", 0, false
	}
	return html.UnescapeString(address), i + 1, true
}

// closeBracket makes a link of the text behind the last "[" of an open text.
func (in *inlines) closeBracket() {
	if len(in.brackets) == 0 {
		return
	}
	b := in.brackets[len(in.brackets)-1]
	if b.at == len(in.src) || !strings.ContainsAny(in.src[b.at:], "\n") {
		in.nodes[b.node].text = ""
		in.nodes[b.node].open++
	}
}

// autolink reads an address in angle brackets.
func autolink(src string, i int) (address string, end int, ok bool) {
	n := strings.IndexAny(src[i+1:min(len(src), i+maxAddress)], "<> \n")
	if n <= 0 || src[i+1+n] != '>' {
		return "", 0, false
	}
	address = src[i+1 : i+1+n]
	scheme, _, found := strings.Cut(address, ":")
	if !found || len(scheme) < 2 || strings.Trim(strings.ToLower(scheme), "abcdefghijklmnopqrstuvwxyz0123456789+.-") != "" {
		if name, host, mail := strings.Cut(address, "@"); !mail || name == "" || !strings.Contains(host, ".") {
			return "", 0, false
		}
	}
	return address, i + n + 2, true
}

// lineBreak returns the length of the tag <br> that s begins with. Cells of tables have no other way to break a line.
func lineBreak(s string) int {
	for _, tag := range []string{"<br>", "<br/>", "<br />"} {
		if len(s) >= len(tag) && strings.EqualFold(s[:len(tag)], tag) {
			return len(tag)
		}
	}
	return 0
}

// bareAddress reads an address of the web that has no markup.
func bareAddress(src string, i int) (string, bool) {
	rest := src[i:min(len(src), i+maxAddress)]
	if !strings.HasPrefix(rest, "http://") && !strings.HasPrefix(rest, "https://") {
		return "", false
	}
	if i > 0 {
		if r, _ := utf8.DecodeLastRuneInString(src[:i]); unicode.IsLetter(r) || unicode.IsDigit(r) {
			return "", false
		}
	}
	end := strings.IndexAny(rest, " \n\t<>`|*\"")
	if end < 0 {
		end = len(rest)
	}
	address := rest[:end]
	if before, _, found := strings.Cut(address, "]"); found && !strings.Contains(before, "[") {
		address = before // the end of a link's text
	}
	for address != "" {
		last := address[len(address)-1]
		if strings.IndexByte(".,:;!?'_~", last) < 0 && (last != ')' || strings.Count(address, "(") >= strings.Count(address, ")")) && (last != ']' || strings.Contains(address, "[")) {
			break
		}
		address = address[:len(address)-1]
	}
	return address, len(address) > len("https://")
}
