package contract

// Loss is what a member of a coordinator knows of a log that is lost, and of how far it is given up.
type Loss struct {
	// Coordinator names it: DATA-CENTER/INDEX. Who gives its log up types this.
	Coordinator string `json:"coordinator"`
	// Epoch is that of the group, which the person has seen who decides.
	Epoch uint64 `json:"epoch"`
	// Lost says that all volumes of the group are lost, or that the log began empty although others know of writes that it held.
	Lost   bool   `json:"lost"`
	Reason string `json:"reason"`
	// Membership is empty if this member does not serve.
	Membership Membership `json:"membership,omitempty"`
	// Found counts the writes that the shards hold so far, and Waiting names who has not answered yet, while the log is given up.
	Found   int    `json:"found,omitempty"`
	Waiting string `json:"waiting,omitempty"`
}
