/** The console of Taskyard. */
import "./style.css";
import "./parts/figures.css";
import { render } from "preact";
import { Shell } from "./shell";

render(<Shell />, document.getElementById("app")!);
