package markdown

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// dump writes blocks in a short form: one line for each block, the text in the marks of its styles.
func dump(blocks []Block, indent string) string {
	var b strings.Builder
	for _, x := range blocks {
		b.WriteString(indent)
		switch x.Kind {
		case Paragraph:
			fmt.Fprintf(&b, "p %s\n", spans(x.Text))
		case Heading:
			fmt.Fprintf(&b, "h%d %s\n", x.Level, spans(x.Text))
		case Code:
			fmt.Fprintf(&b, "code(%s) %q\n", x.Language, x.Code)
		case Quote:
			b.WriteString("quote\n" + dump(x.Blocks, indent+"  "))
		case Rule:
			b.WriteString("rule\n")
		case List:
			fmt.Fprintf(&b, "list %t %d %t\n", x.Ordered, x.Start, x.Loose)
			for _, it := range x.Items {
				box := "-"
				if it.Task {
					box = map[bool]string{true: "x", false: "o"}[it.Done]
				} else if it.Note != "" {
					box = "[" + it.Note + "]"
				}
				b.WriteString(indent + box + "\n" + dump(it.Blocks, indent+"  "))
			}
		case TableBlock:
			fmt.Fprintf(&b, "table %v\n", x.Table.Align)
			for _, row := range append([][][]Span{x.Table.Head}, x.Table.Rows...) {
				b.WriteString(indent)
				for _, c := range row {
					b.WriteString(" |" + spans(c))
				}
				b.WriteString("\n")
			}
		}
	}
	return b.String()
}

func spans(list []Span) string {
	var b strings.Builder
	for _, s := range list {
		marks := ""
		for i, m := range []string{"B", "I", "S", "M", "L", "A"} {
			if s.Style&(1<<i) != 0 {
				marks += m
			}
		}
		text := strings.ReplaceAll(s.Text, "\n", "⏎")
		if marks != "" {
			text = marks + "{" + text + "}"
		}
		b.WriteString(text)
	}
	return b.String()
}

func TestParse(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"a\nb\n\nc", "p a⏎b\np c\n"},
		{"# One\n## Two ##\n#no\n###### Six", "h1 One\nh2 Two\np #no\nh6 Six\n"},
		{"One\n===\nTwo\n---\nend", "h1 One\nh2 Two\np end\n"},
		{"a\n\n---\n***\nb", "p a\nrule\nrule\np b\n"},
		{"**b** *i* ***bi*** ~~s~~ `c` __b__ _i_", "p B{b} I{i} BI{bi} S{s} M{c} B{b} I{i}\n"},
		{"2 * 3 * 4, snake_case_name, 5*4, a~b", "p 2 * 3 * 4, snake_case_name, 5*4, a~b\n"},
		{"**bold with *italic* inside**", "p B{bold with }BI{italic}B{ inside}\n"},
		{"*foo**bar* and **unclosed", "p I{foo**bar} and **unclosed\n"},
		{"`a*b*` ``x ` y`` `open", "p M{a*b*} M{x ` y} `open\n"},
		{`\*not\* \\ a\b`, `p *not* \ a\b` + "\n"},
		{`so $f(x)\,dx = a_1*b_2*c$ and \[a\_b\] and $$x\\y$$, \$5 or $6`, `p so $f(x)\,dx = a_1*b_2*c$ and \[a\_b\] and $$x\\y$$, $5 or $6` + "\n"},
		{"&amp; &lt;x&gt; &#65; &nope; AT&T", "p & <x> A &nope; AT&T\n"},
		{"[text](https://a.example/x) [same.example](same.example)", "p L{text}A{https://a.example/x} L{same.example}\n"},
		{"[**b** t](<a b> \"title\") ![alt](i.png) [no] (x) [a](b", "p BL{b}L{ t}A{a b} L{alt}A{i.png} [no] (x) [a](b\n"},
		{"[one][ref] [ref] [other]\n\n[ref]: https://r.example 'Title'", "p L{one}A{https://r.example} L{ref}A{https://r.example} [other]\n"},
		{"<https://a.example> <me@x.example> <b>html</b> 1 < 2", "p L{https://a.example} L{me@x.example} <b>html</b> 1 < 2\n"},
		{"[https://a.example](https://a.example) http://[::1]/x", "p L{https://a.example} L{http://[::1]/x}\n"},
		{"see https://a.example/p_q_r). xhttp://n", "p see L{https://a.example/p_q_r}). xhttp://n\n"},
		{"```go title\nfunc  f() {\n\n}\n```\nafter", "code(go) \"func  f() {\\n\\n}\"\np after\n"},
		{"~~~\n```\n~~~", "code() \"```\"\n"},
		{"```` md\n```\nx\n```\n````", "code(md) \"```\\nx\\n```\"\n"},
		{"```\nnever closed", "code() \"never closed\"\n"},
		{"text\n\n    indented\n      more\n\nend", "p text\ncode() \"indented\\n  more\"\np end\n"},
		{"> a\n> b\nlazy\n\n> > nested", "quote\n  p a⏎b⏎lazy\nquote\n  quote\n    p nested\n"},
		{"> ```\n> code\n> ```\nout", "quote\n  code() \"code\"\np out\n"},
		{"- a\n- b\n  more\n  - c\n- d", "list false 0 false\n-\n  p a\n-\n  p b⏎more\n  list false 0 false\n  -\n    p c\n-\n  p d\n"},
		{"3. a\n4. b\n\n   second\n\n5. c", "list true 3 true\n-\n  p a\n-\n  p b\n  p second\n-\n  p c\n"},
		{"- a\n\n  ```sh\n  ls\n  ```\n- b", "list false 0 false\n-\n  p a\n  code(sh) \"ls\"\n-\n  p b\n"},
		{"- [ ] open\n- [x] done\n- [y] text", "list false 0 false\no\n  p open\nx\n  p done\n-\n  p [y] text\n"},
		{"* a\n- b", "list false 0 false\n-\n  p a\nlist false 0 false\n-\n  p b\n"},
		{"text\n- item", "p text\nlist false 0 false\n-\n  p item\n"},
		{"in 1998\n1998. no list", "p in 1998⏎1998. no list\n"},
		{"| a | b |\n|:--|--:|\n| 1 | **2** |\n| x \\| y |\n\nend", "table [1 3]\n |a |b\n |1 |B{2}\n |x | y |\np end\n"},
		{"a | b\n--- | :-:\n1 | 2<br>3 | 4\ntext", "table [0 2]\n |a |b\n |1 |2⏎3\n |text |\n"},
		{"a | b\nno table", "p a | b⏎no table\n"},
		{"intro\n| a |\n|---|\n| 1 |", "p intro\ntable [0]\n |a\n |1\n"},
		{"a\r\nb\tc", "p a⏎b\tc\n"},
		{"- a\n\t- b\n\n\tc", "list false 0 false\n-\n  p a\n  list false 0 false\n  -\n    p b\n  p c\n"},
		{"One[^a], two[^B] and none[^c], [^a](x) `[^a]`.\n\n[^a]: First *note*\n    goes on.\n\n[^b]: second\nlazy\n\n    - in it\n\nend", "p One[a], two[B] and none[^c], L{^a}A{x} M{[^a]}.\nlist false 0 false\n[a]\n  p First I{note}⏎goes on.\n[b]\n  p second⏎lazy\n  list false 0 false\n  -\n    p in it\np end\n"},
		{"text[^1]\n[^1]: note\n# end\n> q[^2]\n> [^2]: in a quote\n\n[^ a]: none, [^]: none", "p text[1]\nlist false 0 false\n[1]\n  p note\nh1 end\nquote\n  p q[2]\n  list false 0 false\n  [2]\n    p in a quote\np [^ a]: none, [^]: none\n"},
		{"", ""},
	} {
		if got := dump(Parse(test.in, false), ""); got != test.want {
			t.Errorf("%q is\n%swant\n%s", test.in, got, test.want)
		}
	}
}

// An unfinished text looks as if it were closed.
func TestParseOpenText(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"some **bo", "p some B{bo}\n"},
		{"some **", "p some \n"},
		{"some **bold*", "p some B{bold}\n"},
		{"some **bold**", "p some B{bold}\n"},
		{"some *it", "p some I{it}\n"},
		{"some ~~st", "p some S{st}\n"},
		{"some `co", "p some M{co}\n"},
		{"some `", "p some \n"},
		{"**b *i", "p B{b }BI{i}\n"},
		{"see [the te", "p see L{the te}\n"},
		{"see [text]", "p see L{text}\n"},
		{"see [text](https://exa", "p see L{text}\n"},
		{"see [text](https://exa.example)", "p see L{text}A{https://exa.example}\n"},
		{"**closed *para*\n\nlast **b", "p **closed I{para}\np last B{b}\n"},
		{"```go\nfunc", "code(go) \"func\"\n"},
		{"```go\nx\n``", "code(go) \"x\"\n"},
		{"text\n``", "p text\n"},
		{"text\n#", "p text\n"},
		{"text\n-", "p text\n"},
		{"text\n- ", "p text\n"},
		{"text\n2.", "p text\n"},
		{"- a\n- [", "list false 0 false\n-\n  p a\no\n"},
		{"- a **b", "list false 0 false\n-\n  p a B{b}\n"},
		{"> quoted **b", "quote\n  p quoted B{b}\n"},
		{"## Title *i", "h2 Title I{i}\n"},
		{"see[^", "p see\n"},
		{"see[^no", "p see\n"},
		{"see[^note]", "p see[note]\n"},
		{"see[^1]\n\n[^1]", "p see[1]\np [1]\n"},
		{"see[^1]\n\n[^1]:", "p see[1]\nlist false 0 false\n[1]\n"},
		{"see[^1]\n\n[^1]: a **b", "p see[1]\nlist false 0 false\n[1]\n  p a B{b}\n"},
		{"| a | b", "table [0 0]\n |a |b\n"},
		{"| a | b |\n|--", "table [0 0]\n |a |b\n"},
		{"| a | b |\n|---|---|\n| 1 | **2", "table [0 0]\n |a |b\n |1 |B{2}\n"},
	} {
		if got := dump(Parse(test.in, true), ""); got != test.want {
			t.Errorf("%q is\n%swant\n%s", test.in, got, test.want)
		}
	}
}

// Texts that are made to be slow are parsed in time that is proportional to their length. With a quadratic parser this test
// takes minutes.
func TestParseTakesLinearTime(t *testing.T) {
	const size = 50_000
	for _, piece := range []string{
		"*a ", "*a_ ", "a* ", "**a*", "_", "*", "~", "`", "`` ` ", "[", "![", "![a](x)", "[a](", "](", "](x)", "][", "<", "<a", "&", `\*`, "(", "http://a)))", ")", "|", "| a |\n|-|\n", "|\n",
		"> ", "> > a\n", "- ", "- a\n  ", "1. ", "#", "# a\n", "```\n", "    a\n", "a\n", "-\n", "=\n", "\t", "[a]: b\n", "\n\n", "a  \n", "[^", "[^a]", "[^a]: ", "[^a]: b\n", "[^a]: b\n\n    ",
	} {
		text := strings.Repeat(piece, size/len(piece))
		Parse(text, false)
		Parse(text, true)
	}
	Parse(strings.Repeat("![", 20_000)+strings.Repeat("](x)", 20_000), true)
	Parse(strings.Repeat("*a ", 30_000)+strings.Repeat("a* ", 30_000), true)
	Parse("http://a"+strings.Repeat(")", size), true)
}

func FuzzParse(f *testing.F) {
	f.Add("# a\n- **b** [c](d)\n| a |\n|---|\n```x\n", true)
	f.Fuzz(func(t *testing.T, text string, open bool) {
		for _, b := range Parse(text, open) {
			if !utf8.ValidString(Plain(b.Text)) && utf8.ValidString(text) {
				t.Errorf("%q gives invalid text %q", text, Plain(b.Text))
			}
		}
	})
}
