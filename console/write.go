package console

// KeyView is where a key is, and what readers get.
type KeyView struct {
	Key     string       `json:"key"`
	Slot    uint16       `json:"slot"`
	AtMs    int64        `json:"atMs"`
	Rings   []KeyInRing  `json:"rings"`
	Readers []KeyReading `json:"readers"`
}

// KeyInRing is what the owner of a key in one ring has stored.
type KeyInRing struct {
	Ring       string `json:"ring"`
	DataCenter string `json:"dataCenter"`
	Shard      uint64 `json:"shard"`
	// Version is empty if the ring has never got the key, or has deleted it and forgotten. AgeMs is the time since it
	// was written.
	Version string `json:"version"`
	AgeMs   int64  `json:"ageMs"`
	Value   string `json:"value"`
	Deleted bool   `json:"deleted,omitempty"`
	// Unknown says why nothing is known.
	Unknown string `json:"unknown,omitempty"`
}

// KeyReading is what a new session in a data center has just read.
type KeyReading struct {
	DataCenter string `json:"dataCenter"`
	Version    string `json:"version"`
	Value      string `json:"value"`
	Deleted    bool   `json:"deleted,omitempty"`
	// Source is where the value came from: cache, local or remote.
	Source string `json:"source"`
	// Stable says that the value is known to be in every ring. If not, the session may read from Rings only.
	Stable bool     `json:"stable"`
	Rings  []string `json:"rings"`
	TookMs float64  `json:"tookMs"`
	// Unknown says why nothing was read.
	Unknown string `json:"unknown,omitempty"`
}

// WriteTrace follows one write. Times are milliseconds after its start; nil: not yet.
type WriteTrace struct {
	ID         uint64 `json:"id"`
	Key        string `json:"key"`
	Slot       uint16 `json:"slot"`
	DataCenter string `json:"dataCenter"`
	StartedMs  int64  `json:"startedMs"`
	// AcceptedMs is when the client had its OK: the write is in a log on disk. AcceptedIn is the data center of that
	// log, the origin of the version: not DataCenter if no coordinator there could take the write. It is empty until
	// then.
	AcceptedMs *float64    `json:"acceptedMs"`
	AcceptedIn string      `json:"acceptedIn,omitempty"`
	Version    string      `json:"version"`
	Rings      []TraceRing `json:"rings"`
	// Caches are those that were told to drop older values.
	Caches []TraceCache `json:"caches"`
	// CompleteMs is when the session that wrote it knew that it is in every ring.
	CompleteMs *float64 `json:"completeMs"`
	Error      string   `json:"error,omitempty"`
}

// TraceRing is the progress of a write in one ring.
type TraceRing struct {
	Ring       string `json:"ring"`
	DataCenter string `json:"dataCenter"`
	Shard      uint64 `json:"shard"`
	// ReceivedMs is when it arrived at the owner of its key, VisibleMs when readers of the ring could see it, and
	// AcknowledgedMs when the coordinator knew that the ring has it and that its caches hold no older value.
	ReceivedMs     *float64 `json:"receivedMs"`
	VisibleMs      *float64 `json:"visibleMs"`
	AcknowledgedMs *float64 `json:"acknowledgedMs"`
}

// TraceCache is a cache that was told to drop older values.
type TraceCache struct {
	DataCenter string  `json:"dataCenter"`
	Index      uint64  `json:"index"`
	Ms         float64 `json:"ms"`
}
