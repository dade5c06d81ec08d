const frame = document.querySelector("parley-frame");
const token = new URLSearchParams(location.search).get("token");
if (token) frame.token = token;
frame.addEventListener("status", (e) => (document.querySelector("#status").textContent = `Status: ${e.detail.status}`));
frame.addEventListener("start", (e) => (document.title = e.detail.session));
frame.addEventListener("error", (e) => (document.querySelector("#status").textContent = `Error: ${e.detail.code}`));
