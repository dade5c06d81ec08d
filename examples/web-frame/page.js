const frame = document.querySelector("parley-frame");
const status = document.querySelector("#status");
const words = { idle: "Ready", running: "The agent is working", waiting: "The agent waits for your answer" };

// On a server that needs a token: frame.token = await fetchToken();
frame.addEventListener("status", (e) => (status.textContent = words[e.detail.status] ?? e.detail.status));
frame.addEventListener("prompt", (e) => (document.title = e.detail.open > 0 ? `(${e.detail.open}) Support` : "Support"));
frame.addEventListener("error", (e) => (status.textContent = e.detail.message));
