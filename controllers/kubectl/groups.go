package kubectl

import (
	"fmt"
	"strings"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

var groupColumns = []string{"GROUP", "PRIMARY", "EPOCH", "MEMBERS", "MISSING OR BEHIND"}

// groupRows lists the groups of members that hold the log of a part.
func groupRows(s *v1alpha1.CausalStore) (rows table) {
	for i := range s.Status.DataCenters {
		d := &s.Status.DataCenters[i]
		for j := range d.Groups {
			g := &d.Groups[j]
			rows.row(fmt.Sprintf("%s %d of %s", g.Part, g.Index, d.Name), formatPrimary(g), fmt.Sprint(g.Epoch),
				formatMembers(g), orDash(describeBehind(g)))
		}
	}
	return rows
}

func formatPrimary(g *v1alpha1.GroupStatus) string {
	if g.Primary == 0 {
		return "NONE KNOWN"
	}
	return fmt.Sprintf("member %d", g.Primary)
}

// formatMembers renders which members have everything, of how many.
func formatMembers(g *v1alpha1.GroupStatus) string {
	var numbers []string
	for _, n := range g.Members {
		numbers = append(numbers, fmt.Sprint(n))
	}
	return fmt.Sprintf("%d/%d (%s)", len(g.Members), g.Wanted, orDash(strings.Join(numbers, " ")))
}

// describeBehind says what is wrong with a group.
func describeBehind(g *v1alpha1.GroupStatus) string {
	var texts []string
	for _, m := range g.Behind {
		text := fmt.Sprintf("member %d", m.Member)
		if m.State != "" {
			text += " is " + m.State
		}
		if m.BehindRecords > 0 {
			text += fmt.Sprintf(", %d records (%d bytes) behind", m.BehindRecords, m.BehindBytes)
		}
		texts = append(texts, text)
	}
	if g.Problem != "" {
		texts = append(texts, strings.ToUpper(g.Problem[:1])+g.Problem[1:])
	}
	return strings.Join(texts, "; ")
}

// describeGroup says who serves a group, who has everything, and what is wrong.
func describeGroup(g *v1alpha1.GroupStatus) string {
	text := formatPrimary(g) + " serves"
	if g.Primary == 0 {
		text = "no member is known to serve"
	}
	text += fmt.Sprintf(", %d of %d members have everything", len(g.Members), g.Wanted)
	if behind := describeBehind(g); behind != "" {
		text += ": " + behind
	}
	return text
}

// shardFlag returns the flag of recover that names a group as that of a shard.
func shardFlag(g *v1alpha1.GroupStatus) string {
	if g.Part == plan.ComponentShard {
		return " --shard"
	}
	return ""
}
