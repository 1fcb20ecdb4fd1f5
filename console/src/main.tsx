/** The console of Taskyard. */
import { render } from "preact";
import { Shell } from "./shell";
import { keepRenewing } from "./views/sign_in/exchange";
import "./style.css";
import "./views/lists.css";

keepRenewing();
render(<Shell />, document.getElementById("app")!);
