import { createRoot } from "react-dom/client";
import "@parley-hq/react/styles.css";
import "./console.css";
import "./font.css";
import { App } from "./app.js";

const root = document.getElementById("app");
if (root) createRoot(root).render(<App />);
