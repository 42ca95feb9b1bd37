"""Short carriers about travelling: what the sentences of `travel.py` begin with."""

TEXT = """\
The train leaves at {time}.
Der Zug fährt um {time} Uhr ab.
Le train part à {time}.

Train {train} leaves at {time}.
Der Zug {train} fährt um {time} Uhr ab.
Le train {train} part à {time}.

The train will leave {minutes} late.
Der Zug fährt mit {minutes} Verspätung ab.
Le train partira avec {minutes} de retard.

Seat reservation: {price} per person.
Sitzplatzreservierung: {price} pro Person.
Réservation de place : {price} par personne.

The night train to Vienna takes {duration}.
Der Nachtzug nach Wien braucht {duration}.
Le train de nuit pour Vienne met {duration}.

Your connection leaves from platform {small}.
Ihr Anschluss fährt von Gleis {small}.
Votre correspondance part de la voie {small}.

The monthly pass costs {euros}.
Die Monatskarte kostet {euros}.
L'abonnement mensuel coûte {euros}.

There are no trains until {date}.
Bis zum {date} fahren keine Züge.
Aucun train ne circule jusqu'au {date}.

The ticket office is open until {evening}.
Der Fahrkartenschalter ist bis {evening} Uhr geöffnet.
Le guichet est ouvert jusqu'à {evening}.

You have seat {seat} on train {train}.
Sie haben den Platz {seat} im Zug {train}.
Vous avez la place {seat} dans le train {train}.

The bus to the castle runs every {minutes}.
Der Bus zum Schloss fährt alle {minutes}.
Le bus pour le château passe toutes les {minutes}.

The railway line is {distance} long.
Die Bahnstrecke ist {distance} lang.
La ligne de chemin de fer est longue de {distance}.

In {month}, {percent} of the trains were late.
Im {month} waren {percent} der Züge verspätet.
En {month}, {percent} des trains avaient du retard.

Take bus {small} at {time}.
Nehmen Sie den Bus {small} um {time} Uhr.
Prenez le bus {small} à {time}.

The trip lasts {days}.
Die Reise dauert {days}.
Le voyage dure {days}.

The ferry carries {words_f} cars.
Die Fähre befördert {words_f} Autos.
Le ferry transporte {words_f} voitures.

Flight {flight} departs at {time}.
Der Flug {flight} startet um {time} Uhr.
Le vol {flight} part à {time}.

Boarding begins in {minutes}.
Der Einstieg beginnt in {minutes}.
L'embarquement commence dans {minutes}.

Your suitcase weighs {weight}.
Ihr Koffer wiegt {weight}.
Votre valise pèse {weight}.

The flight from Lisbon lasts {duration}.
Der Flug aus Lissabon dauert {duration}.
Le vol en provenance de Lisbonne dure {duration}.

New departure time of flight {flight}: {appointment}.
Neue Abflugzeit des Flugs {flight}: {appointment}.
Nouvel horaire du vol {flight} : {appointment}.

We will land at {time} local time.
Wir landen um {time} Uhr Ortszeit.
Nous atterrirons à {time}, heure locale.

Please go to gate {gate}.
Bitte gehen Sie zum Flugsteig {gate}.
Veuillez vous rendre à la porte {gate}.

Booking {order}: flight {flight}.
Buchung {order}: Flug {flight}.
Réservation {order} : vol {flight}.

Round-trip flight {route}: {price}.
Hin- und Rückflug {route}: {price}.
Vol aller-retour {route} : {price}.

It is {km} from the airport to the center.
Vom Flughafen ins Zentrum sind es {km}.
De l'aéroport au centre, il y a {km}.

In {month}, {millions} passengers used the airport.
Im {month} nutzten {millions} Passagiere den Flughafen.
En {month}, {millions} de passagers ont utilisé l'aéroport.

I would like to book room {room}.
Ich möchte das Zimmer {room} buchen.
Je voudrais réserver la chambre {room}.

Room {room} costs {price} per night.
Das Zimmer {room} kostet {price} pro Nacht.
La chambre {room} coûte {price} par nuit.

Breakfast costs {price}.
Das Frühstück kostet {price}.
Le petit-déjeuner coûte {price}.

Could you please wake the guest at {morning}?
Könnten Sie bitte den Gast um {morning} Uhr wecken?
Pourriez-vous réveiller le client à {morning}, s'il vous plaît ?

The hotel has {words_f} rooms.
Das Hotel hat {words_f} Zimmer.
L'hôtel compte {words_f} chambres.

The conference room measures {area}.
Der Konferenzraum ist {area} groß.
La salle de conférence mesure {area}.

The receptionist speaks {languages}.
Die Rezeptionistin spricht {languages}.
La réceptionniste parle {languages}.

Arrival on {medium} after {time}.
Anreise am {medium} nach {time} Uhr.
Arrivée le {medium} après {time}.

Our guests stayed {days}.
Unsere Gäste blieben {days}.
Nos clients sont restés {days}.

The pool closes at {evening}.
Das Bad schließt um {evening} Uhr.
La piscine ferme à {evening}.

Parking costs {price} per day.
Das Parken kostet {price} pro Tag.
Le stationnement coûte {price} par jour.

You can cancel booking {order} free of charge.
Sie können die Buchung {order} kostenlos stornieren.
Vous pouvez annuler gratuitement la réservation {order}.

Tomorrow it will be {celsius} in Madrid.
Morgen werden es {celsius} in Madrid.
Demain, il fera {celsius} à Madrid.

On {day}, the wind will reach {speed}.
Am {day} erreicht der Wind {speed}.
Le {day}, le vent atteindra {speed}.

The air pressure is {pressure}.
Der Luftdruck beträgt {pressure}.
La pression atmosphérique est de {pressure}.

In {month}, {millimeters} of rain fell.
Im {month} fielen {millimeters} Regen.
En {month}, il est tombé {millimeters} de pluie.

On {day}, the sun rises at {morning}.
Am {day} geht die Sonne um {morning} Uhr auf.
Le {day}, le soleil se lève à {morning}.

Hottest day of the year: {full}.
Heißester Tag des Jahres: {full}.
Jour le plus chaud de l'année : {full}.

The humidity is {percent}.
Die Luftfeuchtigkeit liegt bei {percent}.
L'humidité est de {percent}.

The snow is {centimeters} deep.
Der Schnee liegt {centimeters} hoch.
L'épaisseur de la neige est de {centimeters}.

Storm warning from {appointment}.
Sturmwarnung ab {appointment}.
Avis de tempête à partir de {appointment}.

The river rose by {centimeters}.
Der Fluss stieg um {centimeters}.
La rivière est montée de {centimeters}.

The hike takes {duration}.
Die Wanderung dauert {duration}.
La randonnée dure {duration}.

The village has {thousands} inhabitants.
Das Dorf hat {thousands} Einwohner.
Le village compte {thousands} habitants.

The country has {millions} inhabitants.
Das Land hat {millions} Einwohner.
Le pays compte {millions} d'habitants.

The new bridge is {meters} long.
Die neue Brücke ist {meters} lang.
Le nouveau pont est long de {meters}.

The cathedral is {meters} high.
Der Dom ist {meters} hoch.
La cathédrale est haute de {meters}.

The tower has {words_f} steps.
Der Turm hat {words_f} Stufen.
La tour compte {words_f} marches.

The museum shows {words} paintings.
Das Museum zeigt {words} Gemälde.
Le musée expose {words} tableaux."""
