package console

// Runbooks is where the runbooks are, for Layout.RunbookBase.
const Runbooks = "https://github.com/causalstore/causalstore/blob/main/docs/runbooks.md#"

// Layout is what does not change while the page's server runs.
type Layout struct {
	Title       string       `json:"title"`
	Version     string       `json:"version"`
	Rings       []string     `json:"rings"`
	DataCenters []LayoutSite `json:"dataCenters"`
	// Faults says that the page may inject faults, write and read: see the routes that the server is given.
	Faults bool `json:"faults"`
	// NoClient says why the page can neither write nor read keys here; it is empty where it can.
	NoClient string `json:"noClient,omitempty"`
	// PodSessions says that all connections to one sidecar are one session, and that each data center has one sidecar.
	PodSessions bool `json:"podSessions,omitempty"`
	// RunbookBase is the address of the runbooks; the name of a section in lower case follows it.
	RunbookBase string `json:"runbookBase"`
	// IntervalMs is the time between two snapshots. FactsAgeMs is how old the facts of a snapshot may be when the page
	// gets it.
	IntervalMs int64 `json:"intervalMs"`
	FactsAgeMs int64 `json:"factsAgeMs"`
}

// LayoutSite is the place of one data center.
type LayoutSite struct {
	Name string `json:"name"`
	Ring string `json:"ring"`
	// Region runs it, where several do.
	Region string `json:"region,omitempty"`
	// Latitude and Longitude are in degrees; nil: unknown.
	Latitude  *float64 `json:"latitude,omitempty"`
	Longitude *float64 `json:"longitude,omitempty"`
	// Address is where Redis clients connect.
	Address string `json:"address,omitempty"`
}

// Snapshot is the state of a deployment at one moment. A nil pointer is a fact that is unknown.
type Snapshot struct {
	AtMs        int64        `json:"atMs"`
	Epoch       uint64       `json:"epoch"`
	DataCenters []DataCenter `json:"dataCenters"`
	Links       []Link       `json:"links"`
	Problems    []Problem    `json:"problems"`
}

// DataCenter is the state of one data center.
type DataCenter struct {
	Name string `json:"name"`
	// Elsewhere says why nothing is known of it here, as it runs in another region; it is empty for those that run
	// here.
	Elsewhere string `json:"elsewhere,omitempty"`
	// Counters are since the start; the recorder makes rates of them. Without Counters it leaves Rates as they are.
	Counters *Counters `json:"-"`
	Rates    *Rates    `json:"rates"`

	Connections *int `json:"connections"`
	Sessions    *int `json:"sessions"`
	Bound       *int `json:"bound"`
	// Listed are bound sessions, at most MaxSessions of them; nil: it is not known which ones are.
	Listed []Session `json:"boundSessions"`

	// InFlight is the writes that the coordinators here have accepted and that are not in every ring yet; BufferBytes
	// is their size, and BufferLimitBytes the size at which writes are refused.
	InFlight         *int   `json:"inFlight"`
	BufferBytes      *int64 `json:"bufferBytes"`
	BufferLimitBytes *int64 `json:"bufferLimitBytes"`

	// SVLagMs is the age of the newest timestamp up to which all writes accepted here are in every ring, as the
	// coordinators here know.
	SVLagMs *int64 `json:"svLagMs"`
	// CutAgeMs is the age of the newest timestamp up to which the writes of all data centers are in every ring, as the
	// sidecar here knows. SkewMs is how far the newest of the origins is ahead of the oldest.
	CutAgeMs *int64 `json:"cutAgeMs"`
	SkewMs   *int64 `json:"skewMs"`
	// RingLagMs is the age of the newest timestamp up to which a ring has acknowledged all writes accepted here.
	RingLagMs map[string]*int64 `json:"ringLagMs"`
	// CacheEntries and CacheBytes are those of the caches here.
	CacheEntries *int   `json:"cacheEntries"`
	CacheBytes   *int64 `json:"cacheBytes"`
	// Homes is what the homes of keys here keep together; nil if it is unknown, or there are none.
	Homes *Homes `json:"homes"`

	// AddedDelayMs is what a fault adds to each message from and to here.
	AddedDelayMs int64 `json:"addedDelayMs,omitempty"`

	Parts []Part `json:"parts"`
}

// Homes are the homes of keys of a data center, which there are with scope DataCenter.
type Homes struct {
	// Keys and Bytes are what they know: writes that are not in every ring, or were not until a moment ago.
	Keys  int   `json:"keys"`
	Bytes int64 `json:"bytes"`
	// Waiting is how many reads wait for a write under way.
	Waiting int `json:"waiting"`
}

// Counters are operations since the start.
type Counters struct {
	// Own, Near, Home, Cache, Local and Remote are reads by where they were answered.
	Own, Near, Home, Cache, Local, Remote, Writes, Failed uint64
}

// Rates are Counters per second.
type Rates struct {
	Own    float64 `json:"own"`
	Near   float64 `json:"near"`
	Home   float64 `json:"home"`
	Cache  float64 `json:"cache"`
	Local  float64 `json:"local"`
	Remote float64 `json:"remote"`
	Writes float64 `json:"writes"`
	Failed float64 `json:"failed"`
}

// Reads returns the reads per second, wherever they were answered.
func (r *Rates) Reads() float64 { return r.Own + r.Near + r.Home + r.Cache + r.Local + r.Remote }

// MaxSessions bounds the sessions that a snapshot lists for each data center.
const MaxSessions = 20

// Session is a session that may not read from every ring.
type Session struct {
	ID uint64 `json:"id"`
	// Reads is how many values in flight bind it; OldestMs is the age of the oldest, and OldestFrom the data center
	// that has accepted it. A session keeps the slot of what it has read, not the key: OldestKey is empty unless the
	// key is known otherwise.
	Reads      int    `json:"reads"`
	OldestMs   int64  `json:"oldestMs"`
	OldestFrom string `json:"oldestFrom"`
	OldestSlot uint16 `json:"oldestSlot"`
	OldestKey  string `json:"oldestKey,omitempty"`
	// Rings may be read from; WaitsFor are the others.
	Rings    []string `json:"rings"`
	WaitsFor []string `json:"waitsFor"`
	Writes   int      `json:"incompleteWrites"`
	// SinceMs is how long it has been bound without a pause, as far as snapshots show.
	SinceMs int64 `json:"sinceMs"`
}

// PartState is what a part is doing.
type PartState string

// The states of parts.
const (
	PartServing   PartState = "serving"
	PartFollowing PartState = "following" // a member of a group of which another one serves
	PartIdle      PartState = "not serving"
	PartHung      PartState = "hangs"
	PartDown      PartState = "down"
)

// Part is a coordinator, a shard or a cache, or one member of it.
type Part struct {
	Name    string    `json:"name"`
	Kind    string    `json:"kind"`
	Index   uint64    `json:"index"`
	Member  uint8     `json:"member,omitempty"`
	State   PartState `json:"state"`
	Version string    `json:"version,omitempty"`
	// SinceMs is how long it has been in this state; nil: since before the recording began.
	SinceMs *int64 `json:"sinceMs"`
}

// Link is the network between two data centers.
type Link struct {
	A string `json:"a"`
	B string `json:"b"`
	// RoundTripMs is as measured from A, or else from B; it is nil if neither gets an answer. DeclaredMs is the
	// topology's.
	RoundTripMs *float64 `json:"roundTripMs"`
	DeclaredMs  float64  `json:"declaredMs"`
	// Bytes are those sent since the start, in both directions; the recorder makes a rate of them. If they are nil it
	// leaves the rate as it is.
	Bytes          *uint64  `json:"-"`
	BytesPerSecond *float64 `json:"bytesPerSecond"`
	// CutAB says that nothing gets from A to B, or, where only answers are known, that A gets none from B.
	CutAB bool `json:"cutAB,omitempty"`
	CutBA bool `json:"cutBA,omitempty"`
}

// Severity says how bad a problem is.
type Severity string

// The severities.
const (
	Warning  Severity = "warning"
	Critical Severity = "critical"
)

// Problem is something that needs attention.
type Problem struct {
	Severity   Severity `json:"severity"`
	DataCenter string   `json:"dataCenter,omitempty"`
	// Other is the other end of a link.
	Other string `json:"other,omitempty"`
	// Part is the name of a part of the data center.
	Part string `json:"part,omitempty"`
	// Text says what is wrong, and what it means.
	Text string `json:"text"`
	// Runbook is the section of the runbooks to read, the name of an alert.
	Runbook string `json:"runbook"`
}

// Mark is an event on the time line.
type Mark struct {
	AtMs int64 `json:"atMs"`
	// Kind is one of the constants below.
	Kind string `json:"kind"`
	Text string `json:"text"`
	// Trace is the number of the trace of a write.
	Trace uint64 `json:"trace,omitempty"`
}

// Kinds of marks.
const (
	MarkFault   = "fault"   // what was injected
	MarkHeal    = "heal"    // the end of what was injected
	MarkChange  = "change"  // what was seen
	MarkWrite   = "write"   // a write that was traced
	MarkRead    = "read"    // a read as a client
	MarkSession = "session" // a session that is bound, or released
)
