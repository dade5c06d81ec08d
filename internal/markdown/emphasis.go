package markdown

import (
	"unicode"
	"unicode/utf8"
)

// delimiter adds a run of marks, one node for each mark, with what CommonMark says about whether it opens or ends a range.
func (in *inlines) delimiter(i, run int) {
	c := in.src[i]
	before, _ := utf8.DecodeLastRuneInString(in.src[:i])
	after, _ := utf8.DecodeRuneInString(in.src[i+run:])
	if i == 0 {
		before = ' '
	}
	if i+run == len(in.src) {
		after = ' '
	}
	punct := func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }
	left := !unicode.IsSpace(after) && (!punct(after) || unicode.IsSpace(before) || punct(before))
	right := !unicode.IsSpace(before) && (!punct(before) || unicode.IsSpace(after) || punct(after))
	opens, ends := left, right
	if c == '_' {
		opens, ends = left && (!right || punct(before)), right && (!left || punct(after))
	}
	width := 1
	if c == '~' {
		if run > 2 {
			opens, ends = false, false
		}
		width = run // both sides of struck text have the same length
	}
	for n := 0; n < run; n += width {
		in.nodes = append(in.nodes, node{text: in.src[i+n : i+n+width], delim: c, run: run, opens: opens, ends: ends})
	}
}

// emphasis pairs the marks behind a node. Marks without a partner are text; in an open text they end with it.
func (in *inlines) emphasis(from int, open bool) {
	stacks := map[string][]int{} // unmatched marks that open a range, by mark
	order := []int{}             // the same in the order of the text
	for i := from; i < len(in.nodes); i++ {
		d := &in.nodes[i]
		if d.delim == 0 {
			continue
		}
		if d.ends {
			stack := stacks[d.text]
			for len(stack) > 0 && in.nodes[stack[len(stack)-1]].delim == 0 {
				stack = stack[:len(stack)-1] // it was inside a range that ended
			}
			stacks[d.text] = stack
			if at := in.partner(stack, i); at >= 0 {
				opener, last := stack[at], i
				if at > 0 && stack[at-1] == opener-1 && d.delim != '~' && i+1 < len(in.nodes) && in.nodes[i+1].delim == d.delim && in.nodes[i+1].ends {
					opener, last = opener-1, i+1
				}
				in.pair(opener, i, last)
				for len(order) > 0 && order[len(order)-1] >= opener {
					in.drop(order[len(order)-1])
					order = order[:len(order)-1]
				}
				i = last
				continue
			}
		}
		if d.opens {
			stacks[d.text] = append(stacks[d.text], i)
			order = append(order, i)
		}
	}
	for n := 0; n < len(order) && open; n++ {
		i := order[n]
		if in.nodes[i].delim == 0 {
			continue
		}
		what := in.what(i)
		if n+1 < len(order) && order[n+1] == i+1 && in.nodes[i].text == in.nodes[i+1].text && what == 1 {
			in.nodes[i].text = ""
			i, what = i+1, 0
			n++
		}
		in.nodes[i].text = ""
		in.nodes[i].begin[what]++
	}
	for i := from; i < len(in.nodes); i++ {
		in.nodes[i].delim = 0
	}
}

// partner returns the index in the stack of the mark that the mark at i ends; -1 is none. It looks at a few marks only.
func (in *inlines) partner(stack []int, i int) int {
	for at := len(stack) - 1; at >= 0 && at >= len(stack)-8; at-- {
		if opener := stack[at]; in.nodes[opener].delim != 0 && opener+1 < i && in.match(opener, i) {
			return at
		}
	}
	return -1
}

// match applies CommonMark's rule for marks that could both open and end a range.
func (in *inlines) match(opener, closer int) bool {
	a, b := &in.nodes[opener], &in.nodes[closer]
	return !(a.ends || b.opens) || (a.run+b.run)%3 != 0 || a.run%3 == 0 && b.run%3 == 0
}

// what is the index in ranged of the range that a single mark begins.
func (in *inlines) what(i int) int {
	if in.nodes[i].delim == '~' {
		return 2
	}
	return 1
}

// pair makes a range of what is between the marks; last is the second mark of a double one.
func (in *inlines) pair(opener, closer, last int) {
	what := in.what(opener)
	if last > closer {
		what = 0
		in.nodes[opener+1].text, in.nodes[opener+1].delim = "", 0
		in.nodes[last].text, in.nodes[last].delim = "", 0
	}
	in.nodes[opener].text, in.nodes[closer].text = "", ""
	in.nodes[opener].delim, in.nodes[closer].delim = 0, 0
	in.nodes[opener].begin[what]++
	in.nodes[closer].end[what]++
}

// drop makes an unmatched mark text.
func (in *inlines) drop(i int) { in.nodes[i].delim = 0 }
