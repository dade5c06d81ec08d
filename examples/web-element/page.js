const conversation = document.querySelector("parley-conversation");
const status = document.getElementById("status");
const words = { idle: "Ready", running: "The agent is working", waiting: "The agent waits for your answer" };

conversation.props = {
  intro: "",
  about: "This demo answers without a model.",
  starters: [
    { text: "/ask radio", label: "Ask me a question", about: "The agent waits for your answer" },
    { text: "/tour", label: "Show what you can do", about: "A plan, helpers, a chart and an approval" },
  ],
};
conversation.addEventListener("status", (e) => (status.textContent = words[e.detail] ?? e.detail));
conversation.addEventListener("prompt", (e) => (document.title = e.detail.length > 0 ? `(${e.detail.length}) Support` : "Support"));
