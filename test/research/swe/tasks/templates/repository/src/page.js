import { render } from "./template.js"

export const comment = (author, text) => render("<p><b>{{author}}</b>: {{text}}</p>", { author, text })
