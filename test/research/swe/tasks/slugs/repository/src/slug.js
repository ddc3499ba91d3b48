/** Address of a title. */
export const slug = (title) =>
  title.toLowerCase().replace(/[^a-z0-9]+/g, "-")
