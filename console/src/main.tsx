/** The console of Taskyard. */
import "./style.css";
import "./parts/figures.css";
import "./views/lists.css";
import { render } from "preact";
import { Shell } from "./shell";
import { keepRenewing } from "./views/sign_in/exchange";

keepRenewing();
render(<Shell />, document.getElementById("app")!);
