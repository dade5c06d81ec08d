const conversation = document.querySelector("parley-conversation");
const status = document.getElementById("status");

conversation.props = { starters: ["/tour", "/ask radio"], about: "Ask anything; this one answers without a model." };
conversation.addEventListener("status", (e) => (status.textContent = `Status: ${e.detail}`));
conversation.addEventListener("prompt", (e) => (document.title = e.detail.length > 0 ? `(${e.detail.length}) Support` : "Support"));
