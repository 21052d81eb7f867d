package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/reprise-tt/reprise/cmd/reprise/internal/cli"
)

// completionCmd prints what makes a shell ask completeCmd.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish"`
}

func (c *completionCmd) Run(s cli.Streams) error {
	return cli.Print(s.Out, func(w cli.Text) { w.F("%s", completions[c.Shell]) })
}

var completions = map[string]string{
	"bash": `_reprise() { mapfile -t COMPREPLY < <(reprise complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); }
complete -o default -F _reprise reprise
`,
	"zsh": `_reprise() {
	local -a found=("${(@f)$(reprise complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	[[ -n $found ]] && compadd -- $found || _files
}
compdef _reprise reprise
`,
	"fish": `complete -c reprise -a '(reprise complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
}

// completeCmd prints the commands and flags that may stand in place of the last word; none where a
// file or a value may stand.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

func (c *completeCmd) Run(k *kong.Context, s cli.Streams) error {
	words := append([]string{""}, c.Words...) // the last is unfinished
	at, last := k.Model.Node, words[len(words)-1]
	for _, word := range words[:len(words)-1] {
		if i := slices.IndexFunc(at.Children, func(n *kong.Node) bool { return n.Name == word }); i >= 0 {
			at = at.Children[i]
		}
	}
	var found []string
	for _, n := range at.Children {
		if !n.Hidden {
			found = append(found, n.Name)
		}
	}
	for _, group := range at.AllFlags(true) {
		for _, f := range group {
			found = append(found, "--"+f.Name)
		}
	}
	return cli.Print(s.Out, func(w cli.Text) {
		for _, name := range found {
			if strings.HasPrefix(name, last) && strings.HasPrefix(name, "-") == strings.HasPrefix(last, "-") {
				w.F("%s\n", name)
			}
		}
	})
}
