/** What narrows a list down: a search, and one choice of several with how many there are of each. */
import { Icon } from "../parts/icon";

export interface Choice {
  name: string;
  count?: number;
}

export interface FilterBarProps {
  search?: string;
  onSearch?: (text: string) => void;
  placeholder?: string;
  /** What the choices are of, for people who do not see them. */
  label?: string;
  choices?: readonly Choice[];
  /** The chosen one; empty for all. */
  choice?: string;
  onChoice?: (name: string) => void;
  /** What the choice of all is called. Default `all`. */
  first?: string;
}

export function FilterBar({
  search = "",
  onSearch,
  placeholder,
  label,
  choices = [],
  choice = "",
  onChoice,
  first = "all",
}: FilterBarProps) {
  return (
    <div class="filter-bar">
      {onSearch && (
        <label class="search">
          <Icon name="search" />
          <input
            type="search"
            aria-label={placeholder ? `Search: ${placeholder}` : "Search"}
            placeholder={placeholder}
            value={search}
            onInput={(event) => onSearch(event.currentTarget.value)}
          />
        </label>
      )}
      {onChoice && choices.length > 0 && (
        <fieldset class="choices">
          <legend class="unseen">{label}</legend>
          {[{ name: "" }, ...choices].map((each: Choice) => (
            <button
              key={each.name}
              type="button"
              class="choice"
              aria-pressed={choice === each.name}
              onClick={() => onChoice(each.name)}
            >
              {each.name || first}
              {each.count !== undefined && <span class="dim"> {each.count}</span>}
            </button>
          ))}
        </fieldset>
      )}
    </div>
  );
}
