package nemo

// schema is a form of the protocol: that of the toolkit's server, of a document that differs from it, or of the AI-Q UI.
type schema struct {
	complete, failed string // status at the end of an answer
	errorStatus      string // status of an error; "" leaves the field out
	hasConversation  bool   // frames have conversation_id
	hasUpdateID      bool   // steps have update_message_id
	stepsUnderUser   bool   // the parent_id of a step is the user message, not "root"
	hasTrace         bool   // observability_trace_message exists
	promptTimeouts   bool   // prompts have timeout and error
	numericCodes     bool   // error codes are numbers, message is the class and details the text
	humanTypes       bool   // multiple choice has frame types of its own
	plainOptions     bool   // options are texts, and there is one kind of multiple choice
	wholeTexts       bool   // the UI shows each response as a message: texts come whole, notifications are responses
	jsonQuery        bool   // the text of a message is a JSON object with a query
	reattaches       bool   // a client that reconnects does not name its conversation
}

// The schemas.
var (
	schemaNeMo = schema{
		complete: "complete", failed: "complete", errorStatus: "in_progress",
		hasConversation: true, hasUpdateID: true, hasTrace: true, promptTimeouts: true,
	}
	// schemaDocumented is the published document of today.
	schemaDocumented = schema{
		complete: "completed", failed: "failed", errorStatus: "in_progress",
		hasConversation: true, stepsUnderUser: true, hasTrace: true, promptTimeouts: true,
	}
	// schemaAgentIQ is the older document.
	schemaAgentIQ = schema{
		complete: "completed", failed: "failed", errorStatus: "in_progress",
		stepsUnderUser: true, numericCodes: true, humanTypes: true,
	}
	// schemaAIQ is for the UI of the AI-Q blueprint, which validates frames strictly.
	schemaAIQ = schema{
		complete: "complete", failed: "complete",
		hasConversation: true, hasUpdateID: true, promptTimeouts: true, plainOptions: true, wholeTexts: true, jsonQuery: true, reattaches: true,
	}
)

var schemaByName = map[string]*schema{
	"": &schemaNeMo, "nemo": &schemaNeMo, "documented": &schemaDocumented, "agentiq": &schemaAgentIQ, "aiq": &schemaAIQ,
}

// codeNumbers are the codes of the older document, which gives only 111, for what does not validate.
var codeNumbers = map[string]string{
	codeUnknown: "100", codeWorkflow: "110", codeMessage: "111", codeMessageType: "112",
	codeContent: "113", codeData: "114", codeAuth: "115",
}

var codeClasses = map[string]string{
	codeUnknown: "UnknownError", codeWorkflow: "WorkflowError", codeMessage: "ValidationError", codeMessageType: "ValidationError",
	codeContent: "ValidationError", codeData: "ValidationError", codeAuth: "AuthenticationError",
}

// convertError converts an error to the schema.
func (s *schema) convertError(e errorContent) errorContent {
	if !s.numericCodes {
		return e
	}
	details := e.Message
	if e.Details != "" && e.Details != e.Message {
		details += ": " + e.Details
	}
	return errorContent{Code: codeNumbers[e.Code], Message: codeClasses[e.Code], Details: details}
}

// promptType is the type of the frame of a prompt.
func (s *schema) promptType(input string) string {
	if s.humanTypes {
		switch input {
		case "radio", "dropdown":
			return "system_human_interaction"
		case "checkbox":
			return "system_human_interaction_name"
		}
	}
	return typePrompt
}
