const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" }

/** Text that HTML shows as it is. */
export const escape = (text) => text.replace(/[&<>"']/g, (char) => entities[char])
