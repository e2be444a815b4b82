// Chooses the page by the address.

import { byId } from "./dom.js";
import { sessionOf } from "./actions.js";
import { showFleet } from "./fleet.js";
import { showPipeline } from "./pipeline.js";

const { scope, alone } = document.documentElement.dataset;
if (alone) byId("home").replaceWith("Tenure");
const session = await sessionOf();
if (session.reads || session.name) {
  if (scope) showPipeline(scope, session); else showFleet();
} else {
  byId("fresh").textContent = "sign in to see the pipelines";
}
