package nemo

// words is a way of speaking: the real server's, or that of a document or
// client that differs from it. It never depends on the conversation.
type words struct {
	name string

	complete, failed string // status at the end of an answer
	errorStatus      string // status of an error; "" leaves the field out
	conversation     bool   // conversation_id is written
	update           bool   // update_message_id is written
	userIsParent     bool   // a step's parent_id is the user message, not "root"
	trace            bool   // observability_trace_message exists
	timed            bool   // prompts carry timeout and error
	numbers          bool   // error codes are numbers, message is the class and details the text
	human            bool   // multiple choice has types of its own
	labels           bool   // options are plain texts, and there is one kind of multiple choice
	bubbles          bool   // each response is a message of its own: texts come whole, notifications are such messages
	packed           bool   // the text of a message is a JSON object with a query
	nameless         bool   // a client that comes back does not say to which conversation
}

// The ways of speaking. The zero name is the real server's.
var (
	wordsReal = words{
		name: "nemo", complete: "complete", failed: "complete", errorStatus: "in_progress",
		conversation: true, update: true, trace: true, timed: true,
	}
	// wordsDocumented are those of the published document of today.
	wordsDocumented = words{
		name: "documented", complete: "completed", failed: "failed", errorStatus: "in_progress",
		conversation: true, userIsParent: true, trace: true, timed: true,
	}
	// wordsAgentIQ are those of the older document.
	wordsAgentIQ = words{
		name: "agentiq", complete: "completed", failed: "failed", errorStatus: "in_progress",
		userIsParent: true, numbers: true, human: true,
	}
	// wordsAIQ please the AI-Q blueprint's UI. It checks frames strictly and knows
	// no trace; a notification shown as a prompt would make it drop the rest of
	// the answer.
	wordsAIQ = words{
		name: "aiq", complete: "complete", failed: "complete",
		conversation: true, update: true, timed: true, labels: true, bubbles: true, packed: true, nameless: true,
	}
)

var allWords = map[string]*words{
	"": &wordsReal, "nemo": &wordsReal, "documented": &wordsDocumented, "agentiq": &wordsAgentIQ, "aiq": &wordsAIQ,
}

// wordsFor returns a way of speaking by name.
func wordsFor(name string) (*words, bool) {
	w, ok := allWords[name]
	return w, ok
}

// codeNumbers are the codes of the older document, which shows 111 for what does
// not validate and says nothing of the others.
var codeNumbers = map[string]string{
	codeUnknown: "100", codeWorkflow: "110", codeMessage: "111", codeMessageType: "112",
	codeContent: "113", codeData: "114", codeAuth: "115",
}

var codeClasses = map[string]string{
	codeUnknown: "UnknownError", codeWorkflow: "WorkflowError", codeMessage: "ValidationError", codeMessageType: "ValidationError",
	codeContent: "ValidationError", codeData: "ValidationError", codeAuth: "AuthenticationError",
}

// problem words an error in the form of the schema.
func (w *words) problem(e errorContent) errorContent {
	if !w.numbers {
		return e
	}
	details := e.Message
	if e.Details != "" && e.Details != e.Message {
		details += ": " + e.Details
	}
	return errorContent{Code: codeNumbers[e.Code], Message: codeClasses[e.Code], Details: details}
}

// promptType is the type of a frame that asks.
func (w *words) promptType(input string) string {
	if w.human {
		switch input {
		case "radio", "dropdown":
			return "system_human_interaction"
		case "checkbox":
			return "system_human_interaction_name"
		}
	}
	return typePrompt
}
