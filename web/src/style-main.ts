/** Entry point of the style of the explorer and of all its views. */

import "./style.css"; // first: what the views say of themselves comes after
import "./ui/app";
import "virtual:views";
