package plan

// DataDir is the folder of a part's data inside of its container, and ShardLogDir that of the log of a middleman that
// keeps one.
const (
	DataDir     = dataDir
	ShardLogDir = logDir
)
