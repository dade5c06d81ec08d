package nemo

// schema is a way of speaking: the real server's, or that of a document or
// client that differs from it. It never depends on the conversation.
type schema struct {
	name string

	complete, failed string // status at the end of an answer
	errorStatus      string // status of an error; "" leaves the field out
	hasConversation  bool   // conversation_id is written
	hasUpdateID      bool   // update_message_id is written
	stepsUnderUser   bool   // a step's parent_id is the user message, not "root"
	hasTrace         bool   // observability_trace_message exists
	promptTimeouts   bool   // prompts carry timeout and error
	numericCodes     bool   // error codes are numbers, message is the class and details the text
	humanTypes       bool   // multiple choice has types of its own
	plainOptions     bool   // options are plain texts, and there is one kind of multiple choice
	wholeTexts       bool   // each response is a message of its own: texts come whole, notifications are such messages
	jsonQuery        bool   // the text of a message is a JSON object with a query
	reattaches       bool   // a client that comes back does not say to which conversation
}

// The ways of speaking. The zero name is the real server's.
var (
	schemaNeMo = schema{
		name: "nemo", complete: "complete", failed: "complete", errorStatus: "in_progress",
		hasConversation: true, hasUpdateID: true, hasTrace: true, promptTimeouts: true,
	}
	// schemaDocumented are those of the published document of today.
	schemaDocumented = schema{
		name: "documented", complete: "completed", failed: "failed", errorStatus: "in_progress",
		hasConversation: true, stepsUnderUser: true, hasTrace: true, promptTimeouts: true,
	}
	// schemaAgentIQ are those of the older document.
	schemaAgentIQ = schema{
		name: "agentiq", complete: "completed", failed: "failed", errorStatus: "in_progress",
		stepsUnderUser: true, numericCodes: true, humanTypes: true,
	}
	// schemaAIQ please the AI-Q blueprint's UI. It checks frames strictly and knows
	// no trace; a notification shown as a prompt would make it drop the rest of
	// the answer.
	schemaAIQ = schema{
		name: "aiq", complete: "complete", failed: "complete",
		hasConversation: true, hasUpdateID: true, promptTimeouts: true, plainOptions: true, wholeTexts: true, jsonQuery: true, reattaches: true,
	}
)

var schemaByName = map[string]*schema{
	"": &schemaNeMo, "nemo": &schemaNeMo, "documented": &schemaDocumented, "agentiq": &schemaAgentIQ, "aiq": &schemaAIQ,
}

// schemaFor returns a way of speaking by name.
func schemaFor(name string) (*schema, bool) {
	w, ok := schemaByName[name]
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

// errorForm words an error in the form of the schema.
func (w *schema) errorForm(e errorContent) errorContent {
	if !w.numericCodes {
		return e
	}
	details := e.Message
	if e.Details != "" && e.Details != e.Message {
		details += ": " + e.Details
	}
	return errorContent{Code: codeNumbers[e.Code], Message: codeClasses[e.Code], Details: details}
}

// promptType is the type of a frame that asks.
func (w *schema) promptType(input string) string {
	if w.humanTypes {
		switch input {
		case "radio", "dropdown":
			return "system_human_interaction"
		case "checkbox":
			return "system_human_interaction_name"
		}
	}
	return typePrompt
}
