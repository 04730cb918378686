package contract

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/topology"
)

// deployment is the topology that the tests change.
const deployment = `{epoch: 1, dataCenters: [{name: us}, {name: eu, coordinators: 2, shards: 2}],
	rings: [{name: america, dataCenters: [us]}, {name: europe, dataCenters: [eu]}]}`

func parse(t *testing.T, text string) *topology.Topology {
	t.Helper()
	topo, err := topology.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func TestOnlyChangesOfCountsApplyLive(t *testing.T) {
	for _, c := range []struct {
		change   string
		old, new string
		live     bool
	}{
		{"nothing", "", "", true},
		{"the epoch", "epoch: 1", "epoch: 2", true},
		{"coordinators", "coordinators: 2", "coordinators: 1, coordinatorsBefore: 2", true},
		{"shards", "shards: 2", "shards: 3, shardsBefore: 2", true},
		{"members of shards", "shards: 2", "shards: 2, shardMembers: 1, shardMembersBefore: 2", true},
		{"caches", "{name: us}", "{name: us, caches: 4}", true},
		{"the name of a data center", "us", "usa", false},
		{"the name of a ring", "america", "west", false},
		{"the order of the data centers", "{name: us}, {name: eu, coordinators: 2, shards: 2}",
			"{name: eu, coordinators: 2, shards: 2}, {name: us}", false},
		{"round-trip times", "epoch: 1", "epoch: 1, roundTripMs: {us: {eu: 80}}", false},
		{"another data center", "[{name: us}, ", "[{name: us}, {name: asia}, ", false},
	} {
		text := strings.ReplaceAll(deployment, c.old, c.new)
		if c.old == "" {
			text = deployment
		}
		if c.change == "another data center" {
			text = strings.Replace(text, "dataCenters: [us]", "dataCenters: [us, asia]", 1)
		}
		if got := AppliesLive(parse(t, deployment), parse(t, text)); got != c.live {
			t.Errorf("a change of %s: applies live is %t, want %t", c.change, got, c.live)
		}
	}
}

// TestTheReadinessReportKeepsItsFormat: operators and parts of different versions read each other's reports.
func TestTheReadinessReportKeepsItsFormat(t *testing.T) {
	got, err := json.Marshal(Readiness{Ready: true, Phase: PhaseRunning, Part: "coordinator", DataCenter: "eu",
		Index: 1, Epoch: 7, Reason: "r",
		Shards: ReshardingCopying, Membership: MembershipJoining, CoordinatorsInUse: []int{0, 2},
		RingsBefore:   []string{"x"},
		RestartNeeded: []string{"limits"}, ConfigProblem: "p"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"ready":true,"phase":"running","part":"coordinator","dataCenter":"eu","index":1,"topologyEpoch":7,"reason":"r",` +
		`"shards":"copying","membership":"joining","coordinatorsInUse":[0,2],"ringsBefore":["x"],"restartNeeded":["limits"],"configProblem":"p"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got, err = json.Marshal(Readiness{})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"ready":false,"phase":"","part":"","dataCenter":"","index":0,"topologyEpoch":0}`; string(got) != want {
		t.Errorf("an empty report is %s, want %s", got, want)
	}
}

func TestAConfigurationThatSetsLittleIsWrittenShort(t *testing.T) {
	got, err := json.Marshal(Config{DataCenter: "eu", Limits: Limits{LogBytes: 5},
		Storage: Storage{Engine: EngineEmbedded, Embedded: EmbeddedStorage{Dir: "/data"}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"dataCenter":"eu","storage":{"engine":"embedded","embedded":{"dir":"/data"}},"limits":{"logBytes":5}}`; string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
